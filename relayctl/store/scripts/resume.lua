-- Ends a pause: what it covered and what stood open before it is closed, and the floor lies above all of it, so that
-- the schedule goes on with its next firing and owes nothing.
--
-- KEYS  1 the schedule's hash   2 its published set   3 its history   4 the change counter   5 the change log
--       6 the stream
-- ARGV  1 beginning of the pause that was read   2 its end that was read, or ''   3 new floor, or '' to leave it
--       4 name as app/schedule   5 app   6 schedule   7 closings (JSON): field, last, value, record (flat
--       history fields, with `offer` where somebody wants verdicts)   8 by whom   9 why   10 now in ms, or ''
-- Answers {resumed, closings made} | {running} (there is no pause) | {moved} (it is another one than was read)
-- Idempotent: again it answers `running`. What was published or closed meanwhile stays so.
--@include invocation
--@include closing
--@include change
--@include time
--@include act
local sch, pub = KEYS[1], KEYS[2]
local head = redis.call('HMGET', sch, 'paused', 'paused_until', 'floor', 'shut')
if not head[1] then
  return { 'running' }
end
if head[1] ~= ARGV[1] or (head[2] or '') ~= ARGV[2] then
  return { 'moved' }
end
local made, shut = 0, head[4]
for _, closing in ipairs(cjson.decode(ARGV[7])) do
  if redis.call('HSETNX', pub, closing.field, closing.value) == 1 then
    made = made + 1
    local kept, named = split(closing.record)
    record(KEYS[3], kept)
    if named.offer then
      named.app, named.schedule = ARGV[5], ARGV[6]
      offer(KEYS[6], named)
    end
    if not is_under(shut, tonumber(closing.last)) then
      shut = closing.last
      redis.call('HSET', sch, 'shut', shut)
    end
  end
end
if ARGV[3] ~= '' and not is_under(head[3], tonumber(ARGV[3])) then
  redis.call('HSET', sch, 'floor', ARGV[3])
end
redis.call('HDEL', sch, 'paused', 'paused_until', 'paused_by', 'paused_why')
enact(sch, 'resume', ARGV[8], ARGV[9], now_ms(ARGV[10]))
announce(KEYS[4], KEYS[5], ARGV[4])
return { 'resumed', made }
