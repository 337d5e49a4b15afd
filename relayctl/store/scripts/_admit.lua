-- lapsed(sch, is_admitted): `obsolete` where the schedule was removed (or its registry is gone) before anybody admitted
-- the invocation, `moved` where it goes on under another name, else nothing. `sch` is '' where no schedule is meant.
local function lapsed(sch, is_admitted)
  if sch == '' or is_admitted then
    return nil
  end
  local hash = redis.call('HGET', sch, 'hash')
  if hash and hash ~= 'tombstone' then
    return nil
  end
  return hash and redis.call('HEXISTS', sch, 'moved_to') == 1 and 'moved' or 'obsolete'
end

-- admit(ask): the first claim of an invocation pins its descriptor, a later one adopts what is pinned. `ask` has
-- inv, sch, pins, leases, ready, ready_app, app, message, slot, descriptor, revision, token, now, lease_ms, stranded, and
-- as the hash has them the attempts made and the descriptor that is pinned (or false).
-- Answers obsolete, elsewhere (not admitted yet, and a release binds the app to another revision, or the claimer's
-- template has no such slot: its descriptor is empty; or it is to be put under the new name of its schedule first),
-- waiting, skipped, coalesced (and the member in the way), or claimed with the attempt.
local function admit(ask)
  local name, member = ask.app .. '|' .. ask.slot, ask.message .. '|' .. ask.slot
  local attempt = ask.attempt + 1
  local state = 'claimed|' .. attempt .. '|' .. ask.token
  local lapse = lapsed(ask.sch, ask.pinned)
  if lapse then
    return lapse == 'moved' and 'elsewhere' or lapse
  end
  if ask.pinned then
    redis.call('HSET', ask.inv, 's:' .. name, state)
  else
    -- A release decides who admits. What is admitted goes on wherever the app runs, or it would wait for a revision
    -- that never comes.
    local pin = redis.call('HGET', ask.pins, ask.app)
    if ask.descriptor == '' or (pin and pin ~= ask.revision) then
      return 'elsewhere'
    end
    if ask.sch ~= '' then
      local overlap = cjson.decode(ask.descriptor).overlap
      local answer, other = take_schedule(ask.sch, ask.leases, ask.ready, ask.ready_app, ask.app, member,
        overlap, ask.now)
      if answer ~= 'free' then
        return answer, other
      end
    end
    redis.call('HSET', ask.inv, 'd:' .. name, ask.descriptor, 's:' .. name, state)
  end
  redis.call('ZADD', ask.leases, ask.now + ask.lease_ms, ask.app .. '|' .. member)
  -- Somebody can run it, so nothing like it is stranded.
  redis.call('HDEL', ask.stranded, ask.app, name)
  return 'claimed', attempt
end

local EARLY_ENDS = { obsolete = true, skipped = true, coalesced = true }

-- end_unadmitted(...): ends an invocation that nobody will run. `fields` is its history record for an obsolete one, in
-- which the message may be left to this.
local function end_unadmitted(inv, events, group, message, name, verdict, other, history, fields)
  local _, attempt = state_of(inv, name)
  local story, app, slot = story_of(inv), string.match(name, '^([^|]*)|(.*)$')
  finish(inv, events, group, message, name, verdict, attempt, '')
  if #fields == 0 then
    return
  end
  local told = { verdict = verdict, message = message }
  if other then
    local which = string.match(other, '^[^|]*')
    told.reason = verdict == 'skipped' and 'another run had not ended: ' .. which or 'run ' .. which .. ' stands for it'
  end
  local copied = {}
  for i = 1, #fields, 2 do
    copied[i], copied[i + 1] = fields[i], told[fields[i]] or fields[i + 1]
  end
  conclude(story, history, events, app, slot, copied)
end
