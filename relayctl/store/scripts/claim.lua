-- Claims one due invocation for a worker that holds a slot and a child for it: the boundary of an attempt.
--
-- KEYS  1 the message's hash   2 ready apps   3 the app's ready set   4 leases   5 pins   6 the stream
--       7 the schedule's hash, or the message's hash again where none is meant   8 history   9 marks of dead letters
--       10 marks of what is stranded
-- ARGV  1 message   2 app   3 slot   4 token   5 descriptor (JSON)   6 revision   7 lease in ms   8 group
--       9 now in ms, or ''   10… flat history fields, should it be obsolete, skipped or coalesced
-- Answers {claimed, attempt, descriptor, envelope, kind} | {taken} | {later} | {elsewhere}
--       | {waiting} (for another run of its schedule to end) | {obsolete} | {skipped} | {coalesced}
--       | {newer} (a newer relayctl wrote it: left as it is)
-- Idempotent by token: the same claim again is answered `claimed` with the same attempt.
--@include time
--@include invocation
--@include overlap
--@include replay
--@include admit
local inv, ready, ready_app, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local message, app, slot, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now = now_ms(ARGV[9])
local name, member = app .. '|' .. slot, message .. '|' .. slot

local function granted(attempt)
  local f = redis.call('HMGET', inv, 'd:' .. name, 'env', 'kind')
  return { 'claimed', attempt, f[1], f[2] or '', f[3] }
end

if is_newer(inv, name) then
  return { 'newer' }
end
local state, attempt, owner = state_of(inv, name)
if state == 'claimed' and owner == token then
  return granted(attempt)
end
if state ~= 'ready' then
  redis.call('ZREM', ready_app, member)
  refresh_ready(ready, ready_app, app)
  return { 'taken' }
end
local due = redis.call('ZSCORE', ready_app, member)
if due and tonumber(due) > now then
  return { 'later' }
end

local sch = is_of_schedule(slot) and KEYS[7] or ''
local answer, more = admit({
  inv = inv, sch = sch, pins = KEYS[5], leases = leases, ready = ready, ready_app = ready_app, app = app,
  message = message, slot = slot, descriptor = ARGV[5], revision = ARGV[6], token = token, now = now,
  lease_ms = tonumber(ARGV[7]), stranded = KEYS[10],
})
if answer == 'elsewhere' then
  return { 'elsewhere' }
end
redis.call('ZREM', ready_app, member)
refresh_ready(ready, ready_app, app)
if answer == 'claimed' then
  return granted(more)
end
if EARLY_ENDS[answer] then
  close_replay(inv, KEYS[9], '')
  end_unadmitted(inv, KEYS[6], ARGV[8], message, name, answer, more, KEYS[8], { unpack(ARGV, 10) })
  release_schedule(sch, ready, ready_app, app, member, now)
end
return { answer }
