-- Moves marks of what is stranded to where they stand by a clock that was corrected.
--
-- KEYS  1 marks of what is stranded
-- ARGV  for each: the mark, since when it was seen to stand in ms, since when it stands from now on
-- Answers how many were moved.
-- Idempotent, also between workers that saw the same correction: only a mark that still says what was seen is moved.
local moved = 0
for i = 1, #ARGV, 3 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
    moved = moved + 1
  end
end
return moved
