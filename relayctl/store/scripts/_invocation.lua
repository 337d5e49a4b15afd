-- The invocations of one message live in its hash: `s:<app>|<slot>` = "state|attempt|token", `d:<app>|<slot>` = the
-- descriptor pinned at admission, `left` = how many have not ended, `env` = the envelope until the last one ends.
-- A slot is a handler for an event rule, @schedule for an occurrence, !schedule for a manual run: a schedule's handler
-- is decided at admission, so it cannot name the invocation.
local LATE_REPLIES_MS = 600000
local HISTORY_LENGTH = 1000
local DEAD_LETTERS = 10000

local function state_of(inv, name)
  local text = redis.call('HGET', inv, 's:' .. name)
  if not text then
    return nil
  end
  local state, attempt, token = string.match(text, '^(%a+)|(%d+)|(.*)$')
  return state, tonumber(attempt), token
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

local function record(history, fields)
  if history ~= '' and #fields > 0 then
    redis.call('XADD', history, 'MAXLEN', '~', HISTORY_LENGTH, '*', unpack(fields))
  end
end

local function bury(dead_letters, fields)
  redis.call('XADD', dead_letters, 'MAXLEN', '~', DEAD_LETTERS, '*', unpack(fields))
end
