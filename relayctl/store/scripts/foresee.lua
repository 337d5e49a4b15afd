-- Looks at all that a registration would touch, for one that is to be part of somebody else's transaction. There a
-- script that fails takes nothing back, so whatever could stop it is to be known beforehand.
--
-- KEYS  1 the mode   2 the change counter   3 the change log   4 the set of all names   5 the removed schedules whose
--       account is open   6 worker ids by heartbeat   then for each schedule: its hash, its published set
-- ARGV  1 for how many ms a heartbeat counts, then the fields to read of each hash
-- Answers {the first key that holds something else than it should (empty: none does), the mode (empty: none), live
--       workers, for each schedule the values of its fields}
-- Idempotent: it writes nothing. The caller watches the keys before.
--@include time
local FIRST_KEY = 7
local LOG = 3

local function is_of(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end

local kinds = { 'string', 'string', 'stream', 'set', 'zset', 'zset' }
for i = 1, #KEYS do
  if not is_of(KEYS[i], kinds[i] or 'hash') then
    return { KEYS[i], '', {}, {} }
  end
end
local seq = tonumber(redis.call('GET', KEYS[2]) or '0')
if not seq then
  return { KEYS[2], '', {}, {} }
end
-- The log takes ids that grow, and they are made of the counter.
local last = redis.call('XREVRANGE', KEYS[LOG], '+', '-', 'COUNT', 1)[1]
if last and tonumber(string.match(last[1], '^%d+')) > seq then
  return { KEYS[LOG], '', {}, {} }
end

local heads = {}
for i = FIRST_KEY, #KEYS, 2 do
  heads[#heads + 1] = redis.call('HMGET', KEYS[i], unpack(ARGV, 2))
end
local live = redis.call('ZRANGEBYSCORE', KEYS[6], now_ms('') - tonumber(ARGV[1]), '+inf')
return { '', redis.call('GET', KEYS[1]) or '', live, heads }
