-- Publishes occurrences that are new: the step that makes a due instant one stream entry across the fleet.
--
-- KEYS  1 the stream   then for each occurrence: the schedule's hash, its published set
-- ARGV  1 token of the publisher
--       2 '1' for an explicit act of an operator, which passes early and pause and replaces a missed or paused closing,
--         below the floor only where one is on record
--       3 now in ms, or ''
--       then for each occurrence: its instant in epoch seconds, its generation, its envelope (JSON)
-- Answers {answer, entry id} for each
--       published (also to the same token again) | duplicate | settled (closed, or at or below the floor)
--       | early | stale (outside its generation's interval) | paused | unknown (no such generation)
--       | moved (its schedule has another name, which stands in place of the entry id)
-- Idempotent by token. The entry is appended before the instant is recorded: scripts do not roll back, and an entry
-- without a record is published again under the same id, while a record without an entry would lose the firing.
--@include time
--@include generation
--@include closing
local EARLY_MS = 1000
local REPLACEABLE = { missed = true, paused = true }
local events, token, explicit, now = KEYS[1], ARGV[1], ARGV[2] == '1', now_ms(ARGV[3])

local function publish(sch, pub, instant, gen, envelope)
  local at = tonumber(instant)
  local head = redis.call('HMGET', sch, 'hw', 'paused', 'floor', 'shut', 'paused_until', 'failures', 'gen', 'from',
    'moved_to')

  local recorded = redis.call('HGET', pub, instant)
  if recorded then
    local state, by, entry = string.match(recorded, '^(%a)|([^|]*)|?(.*)$')
    if state == 'p' then
      return { by == token and 'published' or 'duplicate', entry }
    end
  end
  if head[9] then
    return { 'moved', head[9] }
  end
  local closing = recorded
  if not recorded and is_under(head[4], at) then
    local _, value = range_over(pub, at)
    closing = value
  end
  if closing and not (explicit and REPLACEABLE[string.match(closing, '^c|([^|]*)') or '']) then
    return { 'settled', '' }
  end

  if at * 1000 > now + EARLY_MS and not explicit then
    return { 'early', '' }
  end
  local from, to = tonumber(head[8] or ''), nil
  if head[7] ~= gen then
    from, to = generation(sch, gen)
  end
  if not from then
    return { 'unknown', '' }
  end
  if at * 1000 < from or (to and at * 1000 >= to) then
    return { 'stale', '' }
  end
  -- A pause with an end covers nothing from there on, whether or not somebody has closed it yet.
  local is_paused = head[2] and at >= tonumber(head[2]) and (not head[5] or at < tonumber(head[5]))
  if is_paused and not explicit then
    return { 'paused', '' }
  end
  if is_under(head[3], at) and not closing then
    return { 'settled', '' }
  end

  local entry = redis.call('XADD', events, '*', 'event', envelope)
  redis.call('HSET', pub, instant, 'p|' .. token .. '|' .. entry)
  -- An explicit act says nothing of the firings before it: they are still owed.
  if not explicit and not is_under(head[1], at) then
    redis.call('HSET', sch, 'hw', instant)
  end
  if head[6] then
    -- Refusals that no retry cures count in a row only.
    redis.call('HDEL', sch, 'failures', 'last_error', 'refused_by')
  end
  return { 'published', entry }
end

local answers = {}
for i = 1, (#KEYS - 1) / 2 do
  answers[i] = publish(KEYS[2 * i], KEYS[2 * i + 1], ARGV[3 * i + 1], ARGV[3 * i + 2], ARGV[3 * i + 3])
end
return answers
