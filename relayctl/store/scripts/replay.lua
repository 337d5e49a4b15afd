-- Replays one dead letter: a message of its own with the same event, for that one invocation, and a mark that it runs.
--
-- KEYS  1 dead letters   2 marks of dead letters   3 the stream
-- ARGV  1 the letter's id   2… further flat fields of the entry
-- Answers {replayed, message} | {running, message} (a replay of it is not over) | {final} (not replayable) | {gone}
-- Idempotent: again it answers `running` with the same message.
local letters, marks, id = KEYS[1], KEYS[2], ARGV[1]
local running = redis.call('HGET', marks, id)
if running then
  return { 'running', running }
end
local found = redis.call('XRANGE', letters, id, id)[1]
if not found then
  return { 'gone' }
end
local letter = {}
for i = 1, #found[2], 2 do
  letter[found[2][i]] = found[2][i + 1]
end
-- What a newer relayctl wrote may mean something else.
local is_known = tonumber(letter.v or '0') <= 1
if not is_known or letter.replayable ~= '1' or not (letter.event and letter.app and letter.slot) then
  return { 'final' }
end
local fields = { 'event', letter.event, 'replay', id, 'app', letter.app, 'slot', letter.slot }
for i = 2, #ARGV do
  fields[#fields + 1] = ARGV[i]
end
local message = redis.call('XADD', KEYS[3], '*', unpack(fields))
redis.call('HSET', marks, id, message)
return { 'replayed', message }
