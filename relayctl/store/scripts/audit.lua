-- Raises the floor of one schedule and drops what lies below it. The caller has read the published set and found every
-- firing up to the new floor published or closed; what it read can only have grown since, unless floor or head moved.
--
-- KEYS  1 the schedule's hash   2 its published set
-- ARGV  1 the floor that was read, or ''   2 the head's generation that was read   3 new floor   4… fields to drop
-- Answers {raised, floor} | {moved, floor} (what was read is not true any more)
-- Idempotent: again it answers `moved`. The floor never decreases.
local sch = KEYS[1]
local head = redis.call('HMGET', sch, 'floor', 'gen', 'shut')
local floor = head[1] or ''
local raised = tonumber(ARGV[3])
if floor ~= ARGV[1] or head[2] ~= ARGV[2] or (head[1] and raised < tonumber(floor)) then
  return { 'moved', floor }
end
if #ARGV > 3 then
  redis.call('HDEL', KEYS[2], unpack(ARGV, 4))
end
redis.call('HSET', sch, 'floor', ARGV[3])
if head[3] and tonumber(head[3]) <= raised then
  redis.call('HDEL', sch, 'shut')
end
return { 'raised', ARGV[3] }
