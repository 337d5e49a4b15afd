-- Kept output. Three keys: `texts` is a hash of documents by claim, in which the field `bytes` sums up what all of them
-- weigh; `times` ranks the same claims by when they were last written; `owner` does so for one schedule or event handler.
-- One hash instead of a key per attempt, so that the oldest can be evicted whoever they belong to and every key is known
-- beforehand. What is evicted stays in its own owner's ranking, where it weighs little, until that is written again.
local OUTPUT_MS = 30 * 24 * 3600 * 1000
-- What one entry takes beside its text: its name in three places.
local OUTPUT_WEIGHT = 384
local OUTPUT_VICTIMS = 200

local function drop_output(texts, times, name)
  local size = redis.call('HSTRLEN', texts, name)
  if size > 0 then
    redis.call('HDEL', texts, name)
    redis.call('HINCRBY', texts, 'bytes', -(size + OUTPUT_WEIGHT))
  end
  redis.call('ZREM', times, name)
end

-- keep_output(kept, now): writes kept.text under kept.name, then holds the bounds: the oldest of the owner beyond
-- kept.attempts, then the oldest of all beyond kept.bytes or thirty days. One step evicts a bounded number, the next goes
-- on. With kept.is_known it only renews what is there.
local function keep_output(kept, now)
  local texts, times, owner, name = kept.texts, kept.times, kept.owner, kept.name
  local before = redis.call('HSTRLEN', texts, name)
  if kept.is_known and before == 0 then
    return
  end
  redis.call('HSET', texts, name, kept.text)
  local grown = #kept.text - before + (before == 0 and OUTPUT_WEIGHT or 0)
  local bytes = redis.call('HINCRBY', texts, 'bytes', grown)
  redis.call('ZADD', times, now, name)
  redis.call('ZADD', owner, now, name)
  local surplus = redis.call('ZCARD', owner) - kept.attempts
  if surplus > 0 then
    for _, old in ipairs(redis.call('ZRANGE', owner, 0, surplus - 1)) do
      drop_output(texts, times, old)
      redis.call('ZREM', owner, old)
    end
    bytes = tonumber(redis.call('HGET', texts, 'bytes'))
  end
  for _ = 1, OUTPUT_VICTIMS do
    local oldest = redis.call('ZRANGE', times, 0, 0, 'WITHSCORES')
    if not oldest[1] or (bytes <= kept.bytes and tonumber(oldest[2]) > now - OUTPUT_MS) then
      break
    end
    drop_output(texts, times, oldest[1])
    bytes = tonumber(redis.call('HGET', texts, 'bytes') or 0)
  end
  for _, key in ipairs({ texts, times, owner }) do
    redis.call('PEXPIRE', key, OUTPUT_MS)
  end
end

-- keep_output_or_not(kept, now): the same as part of a step that matters more: output that cannot be kept, for want of
-- memory or a permission, is lost alone.
local function keep_output_or_not(kept, now)
  if kept.name ~= '' and kept.attempts > 0 then
    pcall(keep_output, kept, now)
  end
end
