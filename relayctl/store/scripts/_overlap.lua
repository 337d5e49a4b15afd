-- Of the unfinished runs of a schedule one is its `holder`, another one may be its `waiter`: "message|slot" in the
-- schedule's hash. Neither has a timer: a holder ends because its invocation ends, whoever ends it, and the waiter,
-- which stands in no ready set, takes its place in the same step. `sch` is '' where no schedule is meant.

local function is_of_schedule(slot)
  return string.find(slot, '^[@!]') ~= nil
end

-- release_schedule(...): forgets a member that has ended; where it was the holder, the waiter is made ready.
local function release_schedule(sch, ready, ready_app, app, member, now)
  if sch == '' then
    return
  end
  local marks = redis.call('HMGET', sch, 'holder', 'waiter')
  if marks[2] == member then
    redis.call('HDEL', sch, 'waiter')
  end
  if marks[1] ~= member then
    return
  end
  if not marks[2] then
    redis.call('HDEL', sch, 'holder')
    return
  end
  -- It holds from now on, so that nobody who comes before its claim takes the place.
  redis.call('HSET', sch, 'holder', marks[2])
  redis.call('HDEL', sch, 'waiter')
  make_ready(ready, ready_app, app, marks[2], now)
end

-- A holder is leased or waits in ready. One that is neither was deleted by a hand, or has ended under a former name of the
-- schedule, and must not block it. One that began in another app, before a move, names that app behind its slot.
local function is_standing(leases, ready_app, app, member)
  local own, former = string.match(member, '^([^|]*|[^|]*)|(.*)$')
  return redis.call('ZSCORE', leases, (former or app) .. '|' .. (own or member))
    or redis.call('ZSCORE', ready_app, own or member)
end

-- take_schedule(...): what becomes of a run that asks for its schedule: free, waiting, skipped or coalesced; and for the last
-- two the member that stands in the way.
local function take_schedule(sch, leases, ready, ready_app, app, member, overlap, now)
  local marks = redis.call('HMGET', sch, 'holder', 'waiter')
  if marks[1] and marks[1] ~= member and not is_standing(leases, ready_app, app, marks[1]) then
    release_schedule(sch, ready, ready_app, app, marks[1], now)
    marks = redis.call('HMGET', sch, 'holder', 'waiter')
  end
  if marks[2] == member and overlap ~= 'queue' then
    -- It was asked for without having been promoted, under a template that does not queue any more.
    redis.call('HDEL', sch, 'waiter')
  end
  if not marks[1] then
    redis.call('HSET', sch, 'holder', member)
    return 'free'
  end
  if marks[1] == member or overlap == 'allow' then
    return 'free'
  end
  if overlap == 'skip' then
    return 'skipped', marks[1]
  end
  if marks[2] and marks[2] ~= member then
    return 'coalesced', marks[2]
  end
  redis.call('HSET', sch, 'waiter', member)
  return 'waiting'
end
