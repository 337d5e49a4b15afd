-- One heartbeat: writes the worker's record, forgets workers that are long gone, tells what the fleet looks like.
--
-- KEYS  1 workers   2 the worker's record   3 the change counter   4 the epoch
-- ARGV  1 worker id   2 record (JSON)   3 record's life in ms   4 epoch to set if there is none   5 now in ms, or ''
-- Answers {now ms, change counter, epoch, live worker ids …}
-- Idempotent.
--@include time
local FORGET_MS = 60000
local now = now_ms(ARGV[5])
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - FORGET_MS)
redis.call('SET', KEYS[4], ARGV[4], 'NX')
local answer = { now, tonumber(redis.call('GET', KEYS[3]) or '0'), redis.call('GET', KEYS[4]) }
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now - tonumber(ARGV[3]), '+inf')) do
  answer[#answer + 1] = worker
end
return answer
