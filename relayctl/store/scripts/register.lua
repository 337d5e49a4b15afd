-- Proposes one definition of a schedule; the registry decides. Files have no order, so this gives them one.
--
-- KEYS  1 the schedule's hash   2 the change counter   3 the change log   4 the set of all names   5 its published set
--       6 the removed schedules whose account is open
-- ARGV  1 mode: start | edit | adopt      2 hash of the definition ('tombstone' for a removal)   3 spec (JSON)
--       4 generation that the caller held (0: none)   5 name as app/schedule   6 now in ms, or ''
-- Answers {verdict, gen, hash, spec, from ms, floor s, highest published s, paused s, paused until s, by whom, why,
--       refused publications in a row, what was said of the last, last instant closed s, number of the last act of an
--       operator, acts that nobody has told of (JSON), former names, the name that it was moved to},
--       empty text for what is absent; the verdict is
--       created | unchanged | changed | removed | behind (somebody else's definition is in force) | absent
-- Idempotent: the same definition again is `unchanged`. A tombstone expires after 30 days.
--@include time
--@include change
--@include definition
local sch, mode, hash, spec, held = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local it = {
  sch = sch, pub = KEYS[5], all = KEYS[4], gone = KEYS[6], name = ARGV[5], hash = hash, spec = spec,
  now = now_ms(ARGV[6]),
}

local function answer(verdict)
  local f = redis.call('HMGET', sch, 'gen', 'hash', 'spec', 'from', 'floor', 'hw', 'paused', 'paused_until',
    'paused_by', 'paused_why', 'failures', 'last_error', 'shut', 'control', 'untold',
    'moved_from', 'moved_to')
  for i = 1, 17 do
    f[i] = f[i] or ''
  end
  return { verdict, unpack(f) }
end

local head = head_of(sch)
local gen, current = tonumber(head[1] or '0'), head[2]
if gen == 0 then
  if hash == 'tombstone' then
    return answer('absent')
  end
  define(it, head)
  announce(KEYS[2], KEYS[3], ARGV[5])
  return answer('created')
end
if current == hash then
  return answer('unchanged')
end

local seen = redis.call('HEXISTS', sch, 'h:' .. hash) == 1
local is_live_edit = mode == 'edit' and tonumber(held) == gen
local is_adoption = mode == 'adopt' and tonumber(held) == gen
-- A removal is never content of its own right: a start that lacks a schedule proves nothing.
local is_new = not seen and hash ~= 'tombstone'
-- What was removed and is written again is new content, whatever it was before.
local is_back = current == 'tombstone' and hash ~= 'tombstone' and (not seen or is_live_edit or is_adoption)
if not (is_new or is_back or is_live_edit or is_adoption) then
  return answer('behind')
end

define(it, head)
announce(KEYS[2], KEYS[3], ARGV[5])
return answer(hash == 'tombstone' and 'removed' or 'changed')
