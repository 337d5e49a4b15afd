-- The invocations of one message live in its hash: `s:<app>|<slot>` = "state|attempt|token", `d:<app>|<slot>` = the
-- descriptor pinned at admission, `left` = how many have not ended, `env` = the envelope until the last one ends.
-- A slot is a handler for an event rule, @schedule for an occurrence, !schedule for a manual run: a schedule's handler
-- is decided at admission, so it cannot name the invocation.
local INVOCATION_VERSION = 1
local DESCRIPTOR_VERSION = 1
local LATE_REPLIES_MS = 600000
local HISTORY_LENGTH = 1000
local HISTORY_MS = 30 * 24 * 3600 * 1000
local HISTORY_CHECK_MS = 3600 * 1000
local DEAD_LETTERS = 10000
local DEAD_LETTER_DAYS = 30

-- parsed(text): the state, attempt and token of what stands in a field `s:`; nothing if there is no such field.
local function parsed(text)
  if not text then
    return nil
  end
  local state, attempt, token = string.match(text, '^(%a+)|(%d+)|(.*)$')
  return state, tonumber(attempt), token
end

local function state_of(inv, name)
  return parsed(redis.call('HGET', inv, 's:' .. name))
end

local function set_state(inv, name, state, attempt, token)
  redis.call('HSET', inv, 's:' .. name, state .. '|' .. attempt .. '|' .. token)
end

-- An app stands in the index of ready apps under its earliest due work, and not at all without any.
local function refresh_ready(ready, ready_app, app)
  local first = redis.call('ZRANGE', ready_app, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', ready, first[2], app)
  else
    redis.call('ZREM', ready, app)
  end
end

local function make_ready(ready, ready_app, app, member, due)
  redis.call('ZADD', ready_app, due, member)
  local known = redis.call('ZSCORE', ready, app)
  if not known or tonumber(known) > due then
    redis.call('ZADD', ready, due, app)
  end
end

-- Ends one invocation. When it was the last of its message, the entry is acknowledged and deleted in the same step, so
-- that the stream holds unfinished work only; an entry that is gone already is no error.
local function finish(inv, events, group, message, name, state, attempt, token)
  set_state(inv, name, state, attempt, token)
  if redis.call('HINCRBY', inv, 'left', -1) <= 0 then
    redis.call('XACK', events, group, message)
    redis.call('XDEL', events, message)
    redis.call('HDEL', inv, 'env')
    redis.call('PEXPIRE', inv, LATE_REPLIES_MS)
  end
end

-- A record's id is the server's own time, and so is its age, whatever clock the rest of a step goes by.
local function record(history, fields)
  if history ~= '' and #fields > 0 then
    local id = redis.call('XADD', history, 'MAXLEN', '~', HISTORY_LENGTH, '*', unpack(fields))
    -- Once an hour is enough for days, and every other record is spared two commands.
    if redis.call('PTTL', history) < HISTORY_MS - HISTORY_CHECK_MS then
      local oldest = tonumber(string.match(id, '^%d+')) - HISTORY_MS
      redis.call('XTRIM', history, 'MINID', '~', string.format('%.0f', oldest))
      redis.call('PEXPIRE', history, HISTORY_MS)
    end
  end
end

-- story_of(inv): how a message came, read before `finish` lets go of it.
local function story_of(inv)
  local f = redis.call('HMGET', inv, 'env', 'kind', 'replay')
  return { env = f[1] or '', kind = f[2] or '', is_replay = f[3] and true }
end

local function decoded(text)
  local is_sound, value = pcall(cjson.decode, text)
  return is_sound and type(value) == 'table' and value or {}
end

local OWN_DESCRIPTOR = '"v":' .. DESCRIPTOR_VERSION .. ','

-- is_beyond(version, pinned): a newer relayctl wrote the hash or pinned the descriptor. Whoever knows them goes on with it,
-- and nobody else charges it an attempt.
local function is_beyond(version, pinned)
  if (tonumber(version) or 0) > INVOCATION_VERSION then
    return true
  end
  -- Only what does not begin as every text of this version does, behind its bracket, is read as a whole.
  return pinned and string.sub(pinned, 2, 1 + #OWN_DESCRIPTOR) ~= OWN_DESCRIPTOR
    and (tonumber(decoded(pinned).v) or 0) > DESCRIPTOR_VERSION
end

local function is_newer(inv, name)
  local f = redis.call('HMGET', inv, 'v', 'd:' .. name)
  return is_beyond(f[1], f[2])
end

local function text_or_nil(value)
  return type(value) == 'string' and value ~= '' and value or nil
end

-- offer(events, told): appends a verdict as an event, for rules that want to hear of it. `told` is its fields by name,
-- with the event's source in `offer`.
local function offer(events, told)
  local event = { source = told.offer }
  for _, name in ipairs({ 'app', 'schedule', 'handler', 'verdict', 'reason', 'scheduled_at', 'from', 'occurrence_id',
    'message' }) do
    event[name] = text_or_nil(told[name])
  end
  event.count = tonumber(told.count)
  redis.call('XADD', events, '*', 'event', cjson.encode(event))
end

-- split(fields): the flat fields without `offer`, which is there where somebody wants verdicts; all of them by name.
local function split(fields)
  local kept, named = {}, {}
  for i = 1, #fields, 2 do
    named[fields[i]] = fields[i + 1]
    if fields[i] ~= 'offer' then
      kept[#kept + 1], kept[#kept + 2] = fields[i], fields[i + 1]
    end
  end
  return kept, named
end

-- is_plain(story, fields): nothing is to be added, and nobody wants to hear of it.
local function is_plain(story, fields)
  if story.kind ~= 'event' or story.is_replay then
    return false
  end
  for i = 1, #fields, 2 do
    if fields[i] == 'offer' then
      return false
    end
  end
  return true
end

-- conclude(...): records how an invocation ended, completed by its story, and offers the verdict where it is wanted.
-- The end of a handler that heard of a verdict is not offered, or one that fails would hear of itself for ever.
local function conclude(story, history, events, app, slot, fields)
  if is_plain(story, fields) then
    return record(history, fields)
  end
  local kept, named = split(fields)
  local is_offered = named.offer and named.verdict ~= 'succeeded'
  local envelope = (story.kind ~= 'event' or is_offered) and decoded(story.env) or {}
  local function tell(name, value)
    if value and (named[name] or '') == '' then
      named[name] = value
      kept[#kept + 1], kept[#kept + 2] = name, value
    end
  end
  local marks = {}
  if story.kind ~= 'event' then
    tell('kind', text_or_nil(story.kind))
    tell('scheduled_at', text_or_nil(envelope.scheduled_at))
    tell('by', text_or_nil(envelope.by))
    for _, mark in ipairs(type(envelope.marks) == 'table' and envelope.marks or {}) do
      marks[#marks + 1] = text_or_nil(mark)
    end
  end
  if story.kind == 'manual' then
    marks[#marks + 1] = 'triggered'
  end
  if story.is_replay then
    marks[#marks + 1] = 'replayed'
  end
  tell('marks', text_or_nil(table.concat(marks, ',')))
  record(history, kept)
  if is_offered and envelope.source ~= named.offer then
    named.app = app
    named.schedule = string.match(slot, '^[@!](.+)$')
    named.occurrence_id = story.kind ~= 'event' and envelope.occurrence_id or nil
    offer(events, named)
  end
end

local function bury(dead_letters, fields)
  redis.call('XADD', dead_letters, 'MAXLEN', '~', DEAD_LETTERS, '*', unpack(fields))
  -- Their ids come from the server's clock, so its time decides here, whoever holds another.
  local oldest = tonumber(redis.call('TIME')[1]) - DEAD_LETTER_DAYS * 86400
  redis.call('XTRIM', dead_letters, 'MINID', string.format('%d', oldest * 1000))
end
