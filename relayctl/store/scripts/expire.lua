-- Takes back one attempt whose lease has ended or whose worker is gone. The attempt stays charged; without budget the
-- invocation ends as lost.
--
-- KEYS  1 the message's hash   2 the stream   3 ready apps   4 the app's ready set   5 leases   6 dead letters   7 history
--       8 the schedule's hash, or the message's hash again where none is meant   9 marks of dead letters
-- ARGV  1 message   2 app   3 slot   4 group   5 the end of its lease as it was seen, to take it back although that has
--       not come, as long as nobody has renewed it; or ''   6 now in ms, or ''
--       7 number of flat dead-letter fields, then these, then the flat history fields
-- Answers {ready, attempts made} | {failed, attempts made} | {alive} | {gone}
--       | {newer} (a newer relayctl wrote it: left as it is)
-- Idempotent: the lease is removed with the transition.
--@include time
--@include invocation
--@include overlap
--@include replay
--@include surrender
local inv, events, ready, ready_app, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local message, app, slot = ARGV[1], ARGV[2], ARGV[3]
local now = now_ms(ARGV[6])
local name, member = app .. '|' .. slot, message .. '|' .. slot
local lease = redis.call('ZSCORE', leases, app .. '|' .. member)
if not lease then
  return { 'gone' }
end
if tonumber(lease) > now and tonumber(ARGV[5]) ~= tonumber(lease) then
  return { 'alive' }
end
if is_newer(inv, name) then
  return { 'newer' }
end
local state, attempt = state_of(inv, name)
if state ~= 'claimed' then
  redis.call('ZREM', leases, app .. '|' .. member)
  return { 'gone' }
end
-- A descriptor that a hand has damaged allows no further attempt.
local pinned = redis.call('HGET', inv, 'd:' .. name) or ''
if attempt <= (tonumber(decoded(pinned).retries) or -1) then
  redis.call('ZREM', leases, app .. '|' .. member)
  set_state(inv, name, 'ready', attempt, '')
  make_ready(ready, ready_app, app, member, now)
  return { 'ready', attempt }
end
surrender({
  inv = inv, events = events, ready = ready, ready_app = ready_app, leases = leases, dead_letters = KEYS[6],
  history = KEYS[7], sch = is_of_schedule(slot) and KEYS[8] or '', marks = KEYS[9], group = ARGV[4], message = message,
  app = app, slot = slot, attempt = attempt, now = now,
}, tonumber(ARGV[7]), { unpack(ARGV, 8) })
return { 'failed', attempt }
