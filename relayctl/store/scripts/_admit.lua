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
-- Answers obsolete, elsewhere (not admitted yet, and a release binds the app to another revision, or the claimer's
-- template has no such slot: its descriptor is empty), or claimed with the attempt.
local function admit(inv, sch, pins, leases, app, message, slot, descriptor, revision, token, lease_until)
  local name = app .. '|' .. slot
  local _, attempt = state_of(inv, name)
  if is_obsolete(inv, sch, name) then
    return 'obsolete', attempt
  end
  if redis.call('HEXISTS', inv, 'd:' .. name) == 0 then
    -- A release decides who admits. What is admitted goes on wherever the app runs, or it would wait for a revision
    -- that never comes.
    local pin = redis.call('HGET', pins, app)
    if descriptor == '' or (pin and pin ~= revision) then
      return 'elsewhere', attempt
    end
    redis.call('HSET', inv, 'd:' .. name, descriptor)
  end
  attempt = attempt + 1
  set_state(inv, name, 'claimed', attempt, token)
  redis.call('ZADD', leases, lease_until, app .. '|' .. message .. '|' .. slot)
  return 'claimed', attempt
end
