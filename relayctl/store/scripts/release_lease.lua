-- Takes, extends or gives back the right to publish a release. It is a courtesy: the serial is what keeps two apart.
--
-- KEYS  1 the lease
-- ARGV  1 token   2 who (JSON, without the token), or '' to give it back   3 for how many ms
-- Answers {held} | {given} back | {taken, who, ms that are left} by another | {gone} where nothing was to give back
-- Idempotent by token.
local token, who = ARGV[1], ARGV[2]
local held = redis.call('GET', KEYS[1])
local owner, told = string.match(held or '', '^([^|]*)|(.*)$')
if held and owner ~= token then
  return { 'taken', told, redis.call('PTTL', KEYS[1]) }
end
if who == '' then
  if not held then
    return { 'gone' }
  end
  redis.call('DEL', KEYS[1])
  return { 'given' }
end
redis.call('SET', KEYS[1], token .. '|' .. who, 'PX', ARGV[3])
return { 'held' }
