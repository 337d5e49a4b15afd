-- Pauses a schedule from the next whole second on, or renews what is said of its pause: the first beginning stays.
--
-- KEYS  1 the schedule's hash   2 the change counter   3 the change log
-- ARGV  1 end in epoch seconds, or ''   2 by whom   3 why   4 name as app/schedule   5 now in ms, or ''
-- Answers {paused, beginning in epoch seconds} | {kept, beginning} (it was paused before)
--       | {over, end} (a pause with an end has ended and is not closed yet: resume it first) | {unknown}
-- Idempotent: a pause that says the same already is left alone.
--@include time
--@include change
--@include act
local sch = KEYS[1]
local now = now_ms(ARGV[5])
local head = redis.call('HMGET', sch, 'hash', 'paused', 'paused_until', 'paused_by', 'paused_why')
if not head[1] or head[1] == 'tombstone' then
  return { 'unknown' }
end
if head[2] and head[3] and tonumber(head[3]) * 1000 <= now then
  return { 'over', head[3] }
end
if head[2] and (head[3] or '') == ARGV[1] and head[4] == ARGV[2] and head[5] == ARGV[3] then
  return { 'kept', head[2] }
end
local beginning = head[2] or string.format('%d', math.ceil(now / 1000))
redis.call('HSET', sch, 'paused', beginning, 'paused_by', ARGV[2], 'paused_why', ARGV[3])
if ARGV[1] == '' then
  redis.call('HDEL', sch, 'paused_until')
else
  redis.call('HSET', sch, 'paused_until', ARGV[1])
end
enact(sch, 'pause', ARGV[2], ARGV[3], now)
announce(KEYS[2], KEYS[3], ARGV[4])
return { head[2] and 'kept' or 'paused', beginning }
