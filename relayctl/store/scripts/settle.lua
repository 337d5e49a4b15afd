-- Forgets a removed schedule that owes no verdict any more, unless it was written again and removed again meanwhile.
--
-- KEYS  1 the schedule's hash   2 the removed schedules whose account is open   3 its published set
-- ARGV  1 name as app/schedule   2 the generation that was settled
-- Answers 1 if it was forgotten, else 0
-- Idempotent.
local TOMBSTONE_MS = 30 * 24 * 3600 * 1000
local head = redis.call('HMGET', KEYS[1], 'gen', 'hash')
if head[1] and head[1] ~= ARGV[2] then
  return 0
end
if not head[1] or head[2] == 'tombstone' then
  -- Where nothing was recorded at the removal, what was closed after it has made this set anew, with no end.
  redis.call('PEXPIRE', KEYS[3], TOMBSTONE_MS)
end
return redis.call('ZREM', KEYS[2], ARGV[1])
