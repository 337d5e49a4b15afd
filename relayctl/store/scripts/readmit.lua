-- Writes anew what the broker knew of running attempts and has lost with everything else: a flush, another server.
--
-- KEYS  1 epoch   2 leases   then the hash of each attempt's message
-- ARGV  1 epoch that the worker knew   2 lease in ms   3 now in ms, or ''
--       then per attempt: app, message, slot, token, attempt, descriptor (JSON), kind, envelope
-- Answers per attempt 1 (its record stands) | 0 (somebody else's, ended, or nothing was lost since that epoch)
-- Idempotent.
--@include time
--@include invocation
local is_other = redis.call('GET', KEYS[1]) ~= ARGV[1]
local until_ms = now_ms(ARGV[3]) + tonumber(ARGV[2])
local answers = {}
for i = 3, #KEYS do
  local inv, at = KEYS[i], 4 + (i - 3) * 8
  local app, message, slot, token = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local name = app .. '|' .. slot
  local state, _, owner = state_of(inv, name)
  if not state and is_other then
    redis.call('HSET', inv, 'v', INVOCATION_VERSION, 'kind', ARGV[at + 6], 'env', ARGV[at + 7], 'd:' .. name, ARGV[at + 5])
    -- Of one message several attempts may run; what waited of it is gone.
    redis.call('HINCRBY', inv, 'left', 1)
    set_state(inv, name, 'claimed', ARGV[at + 4], token)
    redis.call('ZADD', KEYS[2], until_ms, app .. '|' .. message .. '|' .. slot)
    state, owner = 'claimed', token
  end
  local is_ours = state == 'claimed' and owner == token and not is_newer(inv, name)
  answers[#answers + 1] = is_ours and 1 or 0
end
return answers
