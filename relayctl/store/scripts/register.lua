-- Proposes one definition of a schedule; the registry decides. Files have no order, so this gives them one.
--
-- KEYS  1 the schedule's hash   2 the change counter   3 the change log   4 the set of all names   5 its published set
--       6 the removed schedules whose account is open
-- ARGV  1 mode: start | edit | adopt      2 hash of the definition ('tombstone' for a removal)   3 spec (JSON)
--       4 generation that the caller held (0: none)   5 name as app/schedule   6 now in ms, or ''
-- Answers {verdict, gen, hash, spec, from ms, floor s, highest published s, paused s, paused until s, by whom, why,
--       refused publications in a row, what was said of the last, last instant closed s, number of the last act of an
--       operator, acts that nobody has told of (JSON)},
--       empty text for what is absent; the verdict is
--       created | unchanged | changed | removed | behind (somebody else's definition is in force) | absent
-- Idempotent: the same definition again is `unchanged`. A tombstone expires after 30 days.
--@include time
--@include change
local KEPT_GENERATIONS = 64
local TOMBSTONE_MS = 30 * 24 * 3600 * 1000
local sch, mode, hash, spec, held = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now = now_ms(ARGV[6])

local function answer(verdict)
  local f = redis.call('HMGET', sch, 'gen', 'hash', 'spec', 'from', 'floor', 'hw', 'paused', 'paused_until',
    'paused_by', 'paused_why', 'failures', 'last_error', 'shut', 'control', 'untold')
  for i = 1, 15 do
    f[i] = f[i] or ''
  end
  return { verdict, unpack(f) }
end

local function begin(gen)
  redis.call('HSET', sch, 'v', '1', 'gen', gen, 'hash', hash, 'spec', spec, 'from', now, 'h:' .. hash, gen)
  if hash == 'tombstone' then
    redis.call('PEXPIRE', sch, TOMBSTONE_MS)
    -- Whatever the audit leaves of it goes with it.
    redis.call('PEXPIRE', KEYS[5], TOMBSTONE_MS)
    redis.call('SREM', KEYS[4], ARGV[5])
    -- What it owed up to now still ends in a verdict, though its app may be gone.
    redis.call('ZADD', KEYS[6], now, ARGV[5])
    redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', now - TOMBSTONE_MS)
  else
    redis.call('PERSIST', sch)
    redis.call('PERSIST', KEYS[5])
    redis.call('SADD', KEYS[4], ARGV[5])
    redis.call('ZREM', KEYS[6], ARGV[5])
  end
  announce(KEYS[2], KEYS[3], ARGV[5])
end

local head = redis.call('HMGET', sch, 'gen', 'hash', 'from', 'spec', 'floor', 'hw', 'shut')
local gen, current = tonumber(head[1] or '0'), head[2]
if gen == 0 then
  if hash == 'tombstone' then
    return answer('absent')
  end
  begin(1)
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

-- Intervals follow one another even where the server's clock stepped back: an instant has one generation, and none
-- begins at or below what has been published, closed or settled under the one before.
now = math.max(now, tonumber(head[3]))
for i = 5, 7 do
  now = math.max(now, head[i] and tonumber(head[i]) * 1000 + 1 or 0)
end
redis.call('HSET', sch, 'g:' .. gen, head[3] .. '|' .. now .. '|' .. current .. '|' .. (head[4] or ''))
local forgotten = gen - KEPT_GENERATIONS
if forgotten >= 1 then
  local old = redis.call('HGET', sch, 'g:' .. forgotten)
  if old then
    local old_hash = string.match(old, '^%d+|%d+|([^|]*)|')
    if redis.call('HGET', sch, 'h:' .. old_hash) == tostring(forgotten) then
      redis.call('HDEL', sch, 'h:' .. old_hash)
    end
    redis.call('HDEL', sch, 'g:' .. forgotten)
  end
end
begin(gen + 1)
return answer(hash == 'tombstone' and 'removed' or 'changed')
