-- Counts a publication that was refused for good, or forgets the count. One that is taken ends the row by itself.
--
-- KEYS  1 the schedule's hash
-- ARGV  1 what was said, or '' to forget the count   2 token of this refusal
-- Answers how many refusals there were in a row; 0 where there is no such schedule.
-- Idempotent by token.
local sch = KEYS[1]
if redis.call('HEXISTS', sch, 'gen') == 0 then
  return 0
end
if ARGV[1] == '' then
  redis.call('HDEL', sch, 'failures', 'last_error', 'refused_by')
  return 0
end
local known = redis.call('HMGET', sch, 'failures', 'refused_by')
if known[2] == ARGV[2] then
  return tonumber(known[1])
end
redis.call('HSET', sch, 'last_error', ARGV[1], 'refused_by', ARGV[2])
return redis.call('HINCRBY', sch, 'failures', 1)
