-- Routes one batch of stream entries: creates their invocations, claims at once what the reader can run, puts the rest
-- into the ready set of its app, ends what needs no run. Routed entries stay pending, under the consumer `routed`, as
-- the durable record.
--
-- KEYS  1 the stream   2 ready apps   3 leases   4 dead letters   5 pins   6 marks of dead letters
--       7 marks of what is stranded   8… as the request names them by index
-- ARGV  1 request (JSON): group, routed, lease_ms, now, entries; an entry has
--         id, inv (key index), event (JSON text), kind, replay (the dead letter that it stands for, or ''),
--         and `dead` (flat dead-letter fields, without inv) or `drop`, or a list `owed`:
--         app, slot, ready, sch, hist (key indexes; 0: none), obsolete (flat history fields, should it end unadmitted),
--         and for a claim at once: token, descriptor (JSON text), revision
-- Answers a list per entry: {'dropped'} | {'dead'} | {'exists'} | per invocation owed:
--         claimed (attempt 1) | ready | obsolete | elsewhere (left ready) | waiting | skipped | coalesced
--         | moved (its schedule has another name: nothing was done, the entry stays with its reader)
-- Idempotent: an entry whose invocations exist is left as it is.
--@include time
--@include invocation
--@include overlap
--@include replay
--@include admit
local request = cjson.decode(ARGV[1])
local now = now_ms(request.now)
local events, ready, leases, dead_letters, pins, marks = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

local function close(id)
  redis.call('XACK', events, request.group, id)
  redis.call('XDEL', events, id)
end

local held = {}

local function hold(id)
  held[#held + 1] = id
end

-- What is not in the index of ready apps yet goes there once per batch: what follows is due no earlier.
local is_indexed = {}

local function put(owed, member)
  if is_indexed[owed.app] then
    redis.call('ZADD', KEYS[owed.ready], now, member)
  else
    make_ready(ready, KEYS[owed.ready], owed.app, member, now)
    is_indexed[owed.app] = true
  end
end

local function place(entry, inv, owed)
  local name, member = owed.app .. '|' .. owed.slot, entry.id .. '|' .. owed.slot
  local sch = owed.sch > 0 and KEYS[owed.sch] or ''
  local answer, more = 'ready', nil
  local lapse = lapsed(sch, false)
  if lapse then
    -- Also without a claim: where the schedule is gone, nobody may be left who would look for it.
    answer = lapse
  elseif owed.token then
    answer, more = admit({
      inv = inv, sch = sch, pins = pins, leases = leases, ready = ready, ready_app = KEYS[owed.ready], app = owed.app,
      message = entry.id, slot = owed.slot, descriptor = owed.descriptor, revision = owed.revision,
      token = owed.token, now = now, lease_ms = request.lease_ms, stranded = KEYS[7], attempt = 0, pinned = false,
    })
  end
  if EARLY_ENDS[answer] then
    close_replay(inv, marks, '')
    local history = owed.hist > 0 and KEYS[owed.hist] or ''
    end_unadmitted(inv, events, request.group, entry.id, name, answer, more, history, owed.obsolete)
  elseif answer == 'ready' or answer == 'elsewhere' then
    put(owed, member)
  end
  return answer
end

-- Only a mark makes it a replay: anybody can write an entry that says so.
local function is_replay(entry)
  return redis.call('HGET', marks, entry.replay) == entry.id
end

local function route(entry)
  if entry.dead then
    bury(dead_letters, entry.dead)
    if is_replay(entry) then
      -- It was never begun here, and its letter must not count as running for ever.
      redis.call('HDEL', marks, entry.replay)
    end
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
    -- One of a newer relayctl may count otherwise, and is not ended here.
    local f = redis.call('HMGET', inv, 'v', 'left')
    if tonumber(f[1]) == INVOCATION_VERSION and (tonumber(f[2]) or 1) <= 0 then
      close(entry.id)
    else
      hold(entry.id)
    end
    return { 'exists' }
  end
  if entry.replay ~= '' then
    if not is_replay(entry) then
      close(entry.id)
      return { 'dropped' }
    end
    redis.call('HSET', inv, 'replay', entry.replay)
  end
  local fields = { 'v', INVOCATION_VERSION, 'kind', entry.kind, 'env', entry.event, 'left', #entry.owed, 'at', now }
  for _, owed in ipairs(entry.owed) do
    fields[#fields + 1] = 's:' .. owed.app .. '|' .. owed.slot
    fields[#fields + 1] = 'ready|0|'
  end
  redis.call('HSET', inv, unpack(fields))
  hold(entry.id)
  local answers = {}
  for i, owed in ipairs(entry.owed) do
    answers[i] = place(entry, inv, owed)
  end
  if answers[1] == 'moved' then
    -- What a schedule owes is one invocation; the reader comes again with the one that its new name owes.
    redis.call('DEL', inv)
    held[#held] = nil
  end
  return answers
end

local answers = {}
for i, entry in ipairs(request.entries) do
  answers[i] = route(entry)
end
if #held > 0 then
  -- The group, or the stream itself, may vanish between reading and routing. That must not stop this half way, with
  -- invocations counted and never placed: what was read runs from its hash, and a new group delivers the entry again.
  held[#held + 1] = 'JUSTID'
  redis.pcall('XCLAIM', events, request.group, request.routed, 0, unpack(held))
end
return answers
