-- Ends one due invocation that no live worker could run for long, or marks since when nobody can.
--
-- KEYS  1 the message's hash   2 the stream   3 ready apps   4 the app's ready set   5 leases   6 dead letters   7 history
--       8 the schedule's hash, or the message's hash again where none is meant   9 marks of dead letters
--       10 marks of what is stranded
-- ARGV  1 message   2 app   3 slot   4 group   5 what is stranded: the app, or app|slot   6 for how long, in ms; '' only
--       marks it   7 now in ms, or ''   8 number of flat dead-letter fields, then these, then the flat history fields
-- Answers {failed, since ms} | {waits, since ms} | {gone} (not ready, or not due) | {obsolete} (its schedule is gone: a
--       claim ends it)
--       | {newer} (a newer relayctl wrote it: left as it is)
-- Idempotent: the first mark stands until somebody claims something like it.
--@include time
--@include invocation
--@include overlap
--@include replay
--@include admit
--@include surrender
local inv, ready_app, stranded = KEYS[1], KEYS[4], KEYS[10]
local message, app, slot = ARGV[1], ARGV[2], ARGV[3]
local now = now_ms(ARGV[7])
local name, member = app .. '|' .. slot, message .. '|' .. slot
if is_newer(inv, name) then
  return { 'newer' }
end
local state, attempt = state_of(inv, name)
local due = tonumber(redis.call('ZSCORE', ready_app, member))
if state ~= 'ready' or not due or due > now then
  return { 'gone' }
end
local sch = is_of_schedule(slot) and KEYS[8] or ''
if lapsed(sch, redis.call('HEXISTS', inv, 'd:' .. name) == 1) == 'obsolete' then
  return { 'obsolete' }
end
redis.call('HSETNX', stranded, ARGV[5], string.format('%.0f', now))
local since = math.max(due, tonumber(redis.call('HGET', stranded, ARGV[5])))
if ARGV[6] == '' or now - since < tonumber(ARGV[6]) then
  return { 'waits', since }
end
surrender({
  inv = inv, events = KEYS[2], ready = KEYS[3], ready_app = ready_app, leases = KEYS[5], dead_letters = KEYS[6],
  history = KEYS[7], sch = sch, marks = KEYS[9], group = ARGV[4], message = message, app = app, slot = slot,
  attempt = attempt, now = now,
}, tonumber(ARGV[8]), { unpack(ARGV, 9) })
return { 'failed', since }
