-- Offers what a worker remembers of one schedule to a server that was flushed or replaced. The highest floor wins, and
-- of pauses and their ends the last act of an operator.
--
-- KEYS  1 the schedule's hash   2 the change counter   3 the change log   4 the set of all names
-- ARGV  1 generation   2 hash of the definition   3 spec (JSON)   4 in force from, in ms   5 floor in epoch seconds
--       6 start of a pause in epoch seconds, or ''   7 its end, or ''   8 name as app/schedule   9 now in ms, or ''
--       10 number of the last act of an operator   11 by whom it is paused   12 why
-- Answers restored (there was no record) | raised (something was learned) | known
-- Idempotent. Another definition in force stays so; it only learns the floor, below which everything has run. The same
-- one learns since when, down to the end of the last that was in force before it here.
--@include time
--@include change
local sch, gen, hash, from = KEYS[1], tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[4])
-- A clock that was ahead must not leave a definition, or a floor, in the future: nothing would fire until then.
local now = now_ms(ARGV[9])
from = math.min(from, now)
local floor = math.min(tonumber(ARGV[5]), math.floor(now / 1000))
local control = tonumber(ARGV[10])

local function take_control()
  redis.call('HDEL', sch, 'paused', 'paused_until', 'paused_by', 'paused_why')
  if control > 0 then
    redis.call('HSET', sch, 'control', ARGV[10])
  end
  if ARGV[6] ~= '' then
    redis.call('HSET', sch, 'paused', ARGV[6], 'paused_by', ARGV[11], 'paused_why', ARGV[12])
    if ARGV[7] ~= '' then
      redis.call('HSET', sch, 'paused_until', ARGV[7])
    end
  end
end

-- ended(): when the last of the past generations ended that were in force for a while. What was restored over another
-- number leaves an empty one, which is in nobody's way.
local function ended()
  local latest = 0
  local record = redis.call('HGETALL', sch)
  for i = 1, #record, 2 do
    if string.find(record[i], '^g:') then
      local begun, over = string.match(record[i + 1], '^(%d+)|(%d+)|')
      if begun and tonumber(begun) < tonumber(over) then
        latest = math.max(latest, tonumber(over))
      end
    end
  end
  return latest
end

local head = redis.call('HMGET', sch, 'gen', 'hash', 'from', 'floor', 'paused', 'spec', 'control')
if not head[1] then
  redis.call('HSET', sch, 'v', '1', 'gen', gen, 'hash', hash, 'spec', ARGV[3], 'from', from, 'floor', floor,
    'h:' .. hash, gen)
  take_control()
  redis.call('SADD', KEYS[4], ARGV[8])
  announce(KEYS[2], KEYS[3], ARGV[8])
  return 'restored'
end

local learned = false
if not head[4] or tonumber(head[4]) < floor then
  redis.call('HSET', sch, 'floor', floor)
  learned = true
end
local acted = tonumber(head[7] or '0')
if control > acted or (control == acted and ARGV[6] ~= '' and not head[5]) then
  take_control()
  learned = true
end
if head[2] == hash then
  local known, since = tonumber(head[1]), tonumber(head[3])
  if gen > known then
    -- What was published under the lower number is still judged by it; as a past one it owes nothing.
    redis.call('HSET', sch, 'gen', gen, 'h:' .. hash, gen,
      'g:' .. known, head[3] .. '|' .. head[3] .. '|' .. hash .. '|' .. (head[6] or ''))
    learned = true
  end
  if from < since then
    -- What another definition was in force for stays its own.
    from = math.max(from, ended())
    if from < since then
      redis.call('HSET', sch, 'from', from)
      learned = true
    end
  end
end
if learned then
  announce(KEYS[2], KEYS[3], ARGV[8])
end
return learned and 'raised' or 'known'
