-- Renews the leases of one worker's running attempts in one step.
--
-- KEYS  1 leases   2… the hash of each attempt's message
-- ARGV  1 lease in ms   2 now in ms, or ''   then per attempt: app, message, slot, token
-- Answers a list of the positions (from 1) whose claim is lost.
-- Idempotent.
--@include time
--@include invocation
local until_ms = now_ms(ARGV[2]) + tonumber(ARGV[1])
local lost = {}
for i = 2, #KEYS do
  local at = 3 + (i - 2) * 4
  local app, message, slot, token = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local state, _, owner = state_of(KEYS[i], app .. '|' .. slot)
  if state == 'claimed' and owner == token then
    redis.call('ZADD', KEYS[1], until_ms, app .. '|' .. message .. '|' .. slot)
  else
    lost[#lost + 1] = i - 1
  end
end
return lost
