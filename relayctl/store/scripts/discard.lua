-- Takes one dead letter out for good, unless a replay of it is running.
--
-- KEYS  1 dead letters   2 marks of dead letters
-- ARGV  1 the letter's id
-- Answers {removed} | {running, message} | {gone}
-- Idempotent: again it answers `gone`.
local running = redis.call('HGET', KEYS[2], ARGV[1])
if running then
  return { 'running', running }
end
local removed = redis.call('XDEL', KEYS[1], ARGV[1])
redis.call('HINCRBY', KEYS[2], 'removed', removed)
return { removed == 1 and 'removed' or 'gone' }
