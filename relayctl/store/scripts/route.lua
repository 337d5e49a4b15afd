-- Routes one batch of stream entries: creates their invocations, claims at once what the reader can run, puts the rest
-- into the ready set of its app, ends what needs no run. Routed entries stay pending, under the consumer `routed`, as
-- the durable record.
--
-- KEYS  1 the stream   2 ready apps   3 leases   4 dead letters   5 pins   6… as the request names them by index
-- ARGV  1 request (JSON): group, routed, lease_ms, now, entries; an entry has
--         id, inv (key index), event (JSON text), kind, and `dead` (flat dead-letter fields) or `drop`, or a list `owed`:
--         app, slot, ready, sch, hist (key indexes; 0: none), obsolete (flat history fields),
--         and for a claim at once: token, descriptor (JSON text), revision
-- Answers a list per entry: {'dropped'} | {'dead'} | {'exists'} | per invocation owed:
--         claimed (attempt 1) | ready | obsolete | elsewhere (left ready)
-- Idempotent: an entry whose invocations exist is left as it is.
--@include time
--@include invocation
--@include admit
local request = cjson.decode(ARGV[1])
local now = now_ms(request.now)
local events, ready, leases, dead_letters, pins = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function close(id)
  redis.call('XACK', events, request.group, id)
  redis.call('XDEL', events, id)
end

-- The group, or the stream itself, may vanish between reading and routing. That must not stop this half way, with
-- invocations counted and never placed: what was read runs from its hash, and a new group delivers the entry again.
local function hold(id)
  redis.pcall('XCLAIM', events, request.group, request.routed, 0, id, 'JUSTID')
end

local function place(entry, inv, owed)
  local name = owed.app .. '|' .. owed.slot
  local sch = owed.sch > 0 and KEYS[owed.sch] or ''
  set_state(inv, name, 'ready', 0, '')
  local answer = 'ready'
  if is_obsolete(inv, sch, name) then
    -- Also without a claim: where the schedule is gone, nobody may be left who would look for it.
    finish(inv, events, request.group, entry.id, name, 'obsolete', 0, '')
    record(owed.hist > 0 and KEYS[owed.hist] or '', owed.obsolete)
    return 'obsolete'
  end
  if owed.token then
    answer = admit(inv, sch, pins, leases, owed.app, entry.id, owed.slot, owed.descriptor, owed.revision, owed.token,
      now + request.lease_ms)
  end
  if answer ~= 'claimed' then
    make_ready(ready, KEYS[owed.ready], owed.app, entry.id .. '|' .. owed.slot, now)
  end
  return answer
end

local function route(entry)
  if entry.dead then
    bury(dead_letters, entry.dead)
    close(entry.id)
    return { 'dead' }
  end
  if entry.drop then
    close(entry.id)
    return { 'dropped' }
  end
  local inv = KEYS[entry.inv]
  if redis.call('EXISTS', inv) == 1 then
    -- Ended already: this is a replay after the group was lost, or a second delivery.
    if tonumber(redis.call('HGET', inv, 'left')) <= 0 then
      close(entry.id)
    else
      hold(entry.id)
    end
    return { 'exists' }
  end
  redis.call('HSET', inv, 'v', '1', 'kind', entry.kind, 'env', entry.event, 'left', #entry.owed, 'at', now)
  hold(entry.id)
  local answers = {}
  for i, owed in ipairs(entry.owed) do
    answers[i] = place(entry, inv, owed)
  end
  return answers
end

local answers = {}
for i, entry in ipairs(request.entries) do
  answers[i] = route(entry)
end
return answers
