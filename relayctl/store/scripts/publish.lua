-- Publishes one occurrence if it is new: the step that makes a due instant one stream entry across the fleet.
--
-- KEYS  1 the schedule's hash   2 its published set   3 the stream
-- ARGV  1 instant in epoch seconds   2 generation   3 token of the publisher   4 envelope (JSON)
--       5 '1' for an explicit act of an operator, which passes early and pause and replaces a missed or paused closing,
--         below the floor only where one is on record   6 now in ms, or ''
--       7… further flat fields of the entry, name and value in turn (publisher, marks, trace context)
-- Answers {answer, entry id, highest published before}
--       published (also to the same token again) | duplicate | settled (closed, or at or below the floor)
--       | early | stale (outside its generation's interval) | paused | unknown (no such generation)
-- Idempotent by token. The entry is appended before the instant is recorded: scripts do not roll back, and an entry
-- without a record is published again under the same id, while a record without an entry would lose the firing.
--@include time
--@include generation
--@include closing
local EARLY_MS = 1000
local REPLACEABLE = { missed = true, paused = true }
local sch, pub, instant, gen, token = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local at = tonumber(instant)
local explicit = ARGV[5] == '1'
local head = redis.call('HMGET', sch, 'hw', 'paused', 'floor', 'shut', 'paused_until', 'failures')
local before = head[1] or ''

local recorded, closing = redis.call('HGET', pub, instant), nil
if recorded then
  local state, by, entry = string.match(recorded, '^(%a)|([^|]*)|?(.*)$')
  if state == 'p' then
    return { by == token and 'published' or 'duplicate', entry, before }
  end
  closing = recorded
elseif is_under(head[4], at) then
  local _, value = range_over(pub, at)
  closing = value
end
if closing and not (explicit and REPLACEABLE[string.match(closing, '^c|([^|]*)') or '']) then
  return { 'settled', '', before }
end

if at * 1000 > now_ms(ARGV[6]) + EARLY_MS and not explicit then
  return { 'early', '', before }
end
local from, to = generation(sch, gen)
if not from then
  return { 'unknown', '', before }
end
if at * 1000 < from or (to and at * 1000 >= to) then
  return { 'stale', '', before }
end
-- A pause with an end covers nothing from there on, whether or not somebody has closed it yet.
local is_paused = head[2] and at >= tonumber(head[2]) and (not head[5] or at < tonumber(head[5]))
if is_paused and not explicit then
  return { 'paused', '', before }
end
if is_under(head[3], at) and not closing then
  return { 'settled', '', before }
end

local fields = { 'event', ARGV[4] }
for i = 7, #ARGV do
  fields[#fields + 1] = ARGV[i]
end
local entry = redis.call('XADD', KEYS[3], '*', unpack(fields))
redis.call('HSET', pub, instant, 'p|' .. token .. '|' .. entry)
-- An explicit act says nothing of the firings before it: they are still owed.
if not explicit and not is_under(head[1], at) then
  redis.call('HSET', sch, 'hw', instant)
end
if head[6] then
  -- Refusals that no retry cures count in a row only.
  redis.call('HDEL', sch, 'failures', 'last_error', 'refused_by')
end
return { 'published', entry, before }
