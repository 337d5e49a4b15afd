-- Claims one due invocation for a worker that holds a slot and a child for it: the boundary of an attempt.
--
-- KEYS  1 the message's hash   2 ready apps   3 the app's ready set   4 leases   5 pins   6 the stream
--       7 the schedule's hash, or the message's hash again where none is meant   8 history
-- ARGV  1 message   2 app   3 slot   4 token   5 descriptor (JSON)   6 revision   7 lease in ms   8 group
--       9 '1' if KEYS[7] is a schedule   10 now in ms, or ''   11… flat history fields, should it be obsolete
-- Answers {claimed, attempt, descriptor, envelope, kind} | {taken} | {later} | {obsolete} | {elsewhere}
-- Idempotent by token: the same claim again is answered `claimed` with the same attempt.
--@include time
--@include invocation
--@include admit
local inv, ready, ready_app, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local message, app, slot, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now = now_ms(ARGV[10])
local name, member = app .. '|' .. slot, message .. '|' .. slot

local function granted(attempt)
  local f = redis.call('HMGET', inv, 'd:' .. name, 'env', 'kind')
  return { 'claimed', attempt, f[1], f[2] or '', f[3] }
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

local sch = ARGV[9] == '1' and KEYS[7] or ''
local answer, made = admit(inv, sch, KEYS[5], leases, app, message, slot, ARGV[5], ARGV[6], token, now + tonumber(ARGV[7]))
if answer == 'elsewhere' then
  return { 'elsewhere' }
end
redis.call('ZREM', ready_app, member)
refresh_ready(ready, ready_app, app)
if answer == 'obsolete' then
  finish(inv, KEYS[6], ARGV[8], message, name, 'obsolete', attempt, '')
  record(KEYS[8], { unpack(ARGV, 11) })
  return { 'obsolete' }
end
return granted(made)
