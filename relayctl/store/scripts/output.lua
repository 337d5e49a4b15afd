-- Keeps what a running attempt has printed so far.
--
-- KEYS  1 the message's hash   2 texts   3 their times   4 times of the owner's
-- ARGV  1 app   2 slot   3 token   4 the attempt as it was claimed   5 name   6 document
--       7 attempts kept of one owner   8 bytes kept in all   9 now in ms, or ''
-- Answers {kept} | {lost} (the claim has ended, or is somebody else's now)
-- Idempotent: it writes what it is given under the claim's own name, for as long as the claim stands.
--@include time
--@include invocation
--@include output
local now = now_ms(ARGV[9])
local state, attempt, owner = state_of(KEYS[1], ARGV[1] .. '|' .. ARGV[2])
if state ~= 'claimed' or owner ~= ARGV[3] or attempt ~= tonumber(ARGV[4]) then
  return { 'lost' }
end
keep_output({
  texts = KEYS[2], times = KEYS[3], owner = KEYS[4], name = ARGV[5], text = ARGV[6], attempts = tonumber(ARGV[7]),
  bytes = tonumber(ARGV[8]),
}, now)
return { 'kept' }
