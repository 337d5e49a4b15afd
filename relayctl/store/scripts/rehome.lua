-- Puts work of a schedule that was moved, and that no worker has in hand, under its new name; and lets the one that waits
-- go on where what it waited for has ended under the old name.
--
-- KEYS  1 the old schedule's hash   2 the new one's hash   3 ready apps   4 ready set of the old app   5 that of the new one
--       6 leases   then for each member: the message's hash
-- ARGV  1 old app   2 new app   3 new schedule   4 now in ms, or ''   then for each: message|slot, as it stands
-- Answers how many were put there
-- Idempotent: what is not under the old name any more is left alone, and so is all of it where the name is used again.
--@include time
--@include invocation
--@include overlap
local old, new, ready, ready_old, ready_new, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local old_app, new_app, schedule, now = ARGV[1], ARGV[2], ARGV[3], now_ms(ARGV[4])
local tombstone = redis.call('HMGET', old, 'hash', 'moved_to')
if tombstone[1] ~= 'tombstone' or not tombstone[2] then
  return 0
end

-- rename(inv, name, wanted): whether the invocation was ready, and stands under the other name now.
local function rename(inv, name, wanted)
  if state_of(inv, name) ~= 'ready' or is_newer(inv, name) then
    return false
  end
  for _, field in ipairs(redis.call('HKEYS', inv)) do
    local kind = string.match(field, '^(%a+):')
    if kind and field == kind .. ':' .. name then
      redis.call('HSET', inv, kind .. ':' .. wanted, redis.call('HGET', inv, field))
      redis.call('HDEL', inv, field)
    end
  end
  return true
end

local function rehome(inv, member)
  local message, slot = string.match(member, '^([^|]*)|(.*)$')
  local due, is_waiter = redis.call('ZSCORE', ready_old, member), redis.call('HGET', old, 'waiter') == member
  if not due and not is_waiter then
    return 0
  end
  local own = string.sub(slot, 1, 1) .. schedule
  if not rename(inv, old_app .. '|' .. slot, new_app .. '|' .. own) then
    return 0
  end
  redis.call('ZREM', ready_old, member)
  if is_waiter then
    redis.call('HDEL', old, 'waiter')
  end
  local holder = redis.call('HGET', new, 'holder')
  if holder == member or holder == member .. '|' .. old_app then
    redis.call('HSET', new, 'holder', message .. '|' .. own)
  end
  make_ready(ready, ready_new, new_app, message .. '|' .. own, due and tonumber(due) or now)
  return 1
end

local count = 0
for i = 7, #KEYS do
  count = count + rehome(KEYS[i], ARGV[i - 2])
end
if count > 0 then
  refresh_ready(ready, ready_old, old_app)
end
local marks = redis.call('HMGET', new, 'holder', 'waiter')
if marks[1] and marks[2] and not is_standing(leases, ready_new, new_app, marks[1]) then
  release_schedule(new, ready, ready_new, new_app, marks[1], now)
end
return count
