-- is_obsolete(...): the schedule was removed (or its registry is gone) before anybody admitted the invocation.
-- `sch` is '' where no schedule is meant.
local function is_obsolete(inv, sch, name)
  if sch == '' or redis.call('HEXISTS', inv, 'd:' .. name) == 1 then
    return false
  end
  local hash = redis.call('HGET', sch, 'hash')
  return not hash or hash == 'tombstone'
end

-- admit(...): the first claim of an invocation pins its descriptor, a later one adopts what is pinned.
-- Answers obsolete, elsewhere (a release binds the app to another revision, or nothing is pinned and the claimer's
-- template has no such slot: its descriptor is empty), or claimed with the attempt.
local function admit(inv, sch, pins, leases, app, message, slot, descriptor, revision, token, lease_until)
  local name = app .. '|' .. slot
  local _, attempt = state_of(inv, name)
  if is_obsolete(inv, sch, name) then
    return 'obsolete', attempt
  end
  local pin = redis.call('HGET', pins, app)
  local is_pinned = redis.call('HEXISTS', inv, 'd:' .. name) == 1
  if (pin and pin ~= revision) or (not is_pinned and descriptor == '') then
    return 'elsewhere', attempt
  end
  redis.call('HSETNX', inv, 'd:' .. name, descriptor)
  attempt = attempt + 1
  set_state(inv, name, 'claimed', attempt, token)
  redis.call('ZADD', leases, lease_until, app .. '|' .. message .. '|' .. slot)
  return 'claimed', attempt
end
