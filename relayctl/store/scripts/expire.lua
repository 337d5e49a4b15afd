-- Takes back one attempt whose lease has ended or whose worker is gone. The attempt stays charged; without budget the
-- invocation ends as lost.
--
-- KEYS  1 the message's hash   2 the stream   3 ready apps   4 the app's ready set   5 leases   6 dead letters   7 history
--       8 the schedule's hash, or the message's hash again where none is meant   9 marks of dead letters
-- ARGV  1 message   2 app   3 slot   4 group   5 '1' to take it whatever its lease says   6 now in ms, or ''
--       7 number of flat dead-letter fields, then these, then the flat history fields
-- Answers {ready, attempts made} | {failed, attempts made} | {alive} | {gone}
-- Idempotent: the lease is removed with the transition.
--@include time
--@include invocation
--@include overlap
--@include replay
local inv, events, ready, ready_app, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local message, app, slot = ARGV[1], ARGV[2], ARGV[3]
local now = now_ms(ARGV[6])
local name, member = app .. '|' .. slot, message .. '|' .. slot
local lease = redis.call('ZSCORE', leases, app .. '|' .. member)
if not lease then
  return { 'gone' }
end
if tonumber(lease) > now and ARGV[5] ~= '1' then
  return { 'alive' }
end
local state, attempt = state_of(inv, name)
if state ~= 'claimed' then
  redis.call('ZREM', leases, app .. '|' .. member)
  return { 'gone' }
end
local pinned = redis.call('HGET', inv, 'd:' .. name)
local descriptor = cjson.decode(pinned)
if attempt <= descriptor.retries then
  redis.call('ZREM', leases, app .. '|' .. member)
  set_state(inv, name, 'ready', attempt, '')
  make_ready(ready, ready_app, app, member, now)
  return { 'ready', attempt }
end

-- Who takes it back knows neither contract nor event: both are here.
local envelope = redis.call('HGET', inv, 'env') or ''
local is_occurrence = string.sub(slot, 1, 1) == '@'
local scheduled_at = is_occurrence and cjson.decode(envelope).scheduled_at or ''
local known = { 'handler', descriptor.handler, 'scheduled_at', scheduled_at, 'attempts', attempt }
local function with(fields, extra)
  for _, more in ipairs({ known, extra }) do
    for i = 1, #more do
      fields[#fields + 1] = more[i]
    end
  end
  return fields
end
local buried = tonumber(ARGV[7])
if not has_letter(inv, KEYS[6]) then
  bury(KEYS[6], with({ unpack(ARGV, 8, 7 + buried) }, { 'descriptor', pinned, 'event', envelope }))
end
local story = story_of(inv)
redis.call('ZREM', leases, app .. '|' .. member)
close_replay(inv, KEYS[9], '')
finish(inv, events, ARGV[4], message, name, 'failed', attempt, '')
release_schedule(is_of_schedule(slot) and KEYS[8] or '', ready, ready_app, app, member, now)
local fields = with({ unpack(ARGV, 8 + buried) }, { 'of', descriptor.retries + 1, 'finished', now })
conclude(story, KEYS[7], events, app, slot, fields)
return { 'failed', attempt }
