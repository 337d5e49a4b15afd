-- A schedule's head: `it` has sch, pub (its hash and published set), all, gone (the names of all schedules, and of the
-- removed ones whose account is open), name as app/schedule, hash and spec of the new definition, and now, in ms.
local TOMBSTONE_MS = 30 * 24 * 3600 * 1000
local KEPT_GENERATIONS = 64

-- head_of(sch): gen, hash, from, spec, floor, highest published, last closed; the first is nil where there is none.
local function head_of(sch)
  return redis.call('HMGET', sch, 'gen', 'hash', 'from', 'spec', 'floor', 'hw', 'shut')
end

local function set_head(it, gen, now, was)
  redis.call('HSET', it.sch, 'v', '1', 'gen', gen, 'hash', it.hash, 'spec', it.spec, 'from', now, 'h:' .. it.hash, gen)
  if it.hash == 'tombstone' then
    redis.call('PEXPIRE', it.sch, TOMBSTONE_MS)
    -- Whatever the audit leaves of it goes with it.
    redis.call('PEXPIRE', it.pub, TOMBSTONE_MS)
    redis.call('SREM', it.all, it.name)
    -- What it owed up to now still ends in a verdict, though its app may be gone.
    redis.call('ZADD', it.gone, now, it.name)
    redis.call('ZREMRANGEBYSCORE', it.gone, '-inf', now - TOMBSTONE_MS)
  elseif not was or was == 'tombstone' then
    redis.call('PERSIST', it.sch)
    redis.call('PERSIST', it.pub)
    redis.call('SADD', it.all, it.name)
    redis.call('ZREM', it.gone, it.name)
    redis.call('HDEL', it.sch, 'moved_to')
  end
end

local function forget_generation(sch, gen)
  local old = redis.call('HGET', sch, 'g:' .. gen)
  if old then
    local hash = string.match(old, '^%d+|%d+|([^|]*)|')
    if redis.call('HGET', sch, 'h:' .. hash) == tostring(gen) then
      redis.call('HDEL', sch, 'h:' .. hash)
    end
    redis.call('HDEL', sch, 'g:' .. gen)
  end
end

-- define(it, head): puts the new definition in force behind that head. Whoever calls it announces the change.
local function define(it, head)
  local gen = tonumber(head[1] or '0')
  if gen == 0 then
    set_head(it, 1, it.now, nil)
    return
  end
  -- Intervals follow one another even where the server's clock stepped back: an instant has one generation, and none
  -- begins at or below what has been published, closed or settled under the one before.
  local now = math.max(it.now, tonumber(head[3]))
  for i = 5, 7 do
    now = math.max(now, head[i] and tonumber(head[i]) * 1000 + 1 or 0)
  end
  redis.call('HSET', it.sch, 'g:' .. gen, head[3] .. '|' .. now .. '|' .. head[2] .. '|' .. (head[4] or ''))
  if gen > KEPT_GENERATIONS then
    forget_generation(it.sch, gen - KEPT_GENERATIONS)
  end
  set_head(it, gen + 1, now, head[2])
end
