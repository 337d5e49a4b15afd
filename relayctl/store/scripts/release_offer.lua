-- Offers the release that a worker runs to a server that has lost it. The highest serial wins.
--
-- KEYS  1 the serial in force   2 records   3 revisions by app   4 the mode   5 bundles   6 bundles on their way
-- ARGV  1 its serial   2 its record   3 digest of its bundle   then for each app: its name, its revision
-- Answers restored | known (this one or a later one is in force, or the namespace lives without releases) | unstaged
-- Idempotent.
local serial = tonumber(redis.call('GET', KEYS[1]) or '0')
local mode = redis.call('GET', KEYS[4])
if serial >= tonumber(ARGV[1]) or (mode and mode ~= 'push') then
  return 'known'
end
if redis.call('HEXISTS', KEYS[5], ARGV[3]) == 0 then
  return 'unstaged'
end
redis.call('SET', KEYS[4], 'push')
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('DEL', KEYS[3])
for i = 4, #ARGV, 2 do
  redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
end
redis.call('ZREM', KEYS[6], ARGV[3])
redis.call('SET', KEYS[1], ARGV[1])
return 'restored'
