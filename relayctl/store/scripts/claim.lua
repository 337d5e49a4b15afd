-- Claims due invocations of one app for a worker that holds so many slots and children for it: the boundary of an attempt.
-- It may name more than it holds places for, since others claim too; those that come first get them.
--
-- KEYS  1 ready apps   2 the app's ready set   3 leases   4 pins   5 the stream   6 marks of dead letters
--       7 marks of what is stranded   then per candidate: the message's hash, the schedule's hash (or the message's again
--       where none is meant), history
-- ARGV  1 app   2 revision   3 lease in ms   4 group   5 now in ms, or ''   6 how many may begin at once
--       7 how many more may be granted, to begin when others have ended: none of these on its last attempt
--       8 '1' where the same was asked before and no answer came   9 number of flat history fields, then these, should one
--       be obsolete, skipped or coalesced; then per candidate: message, slot, token, descriptor (JSON; '=': as before)
-- Answers per candidate {claimed, attempt, descriptor, envelope} | {taken} | {later} | {elsewhere}
--       | {waiting} (for another run of its schedule to end) | {obsolete} | {skipped} | {coalesced}
--       | {newer} (a newer relayctl wrote it: left as it is) | {left}; there may be fewer: all places were granted before
--       the others
-- Idempotent by token: the same claims again are answered `claimed` with the same attempts, and count as granted.
--@include time
--@include invocation
--@include overlap
--@include replay
--@include admit
local ready, ready_app, leases = KEYS[1], KEYS[2], KEYS[3]
local app, group, in_hand = ARGV[1], ARGV[4], tonumber(ARGV[7])
local places = tonumber(ARGV[6]) + in_hand
local now, lease_ms = now_ms(ARGV[5]), tonumber(ARGV[3])
local fields = { unpack(ARGV, 10, 9 + tonumber(ARGV[9])) }
local is_again, is_index_old = ARGV[8] == '1', false

local function candidates()
  local found, at, descriptor = {}, 10 + #fields, ''
  for key = 8, #KEYS, 3 do
    local message, slot = ARGV[at], ARGV[at + 1]
    descriptor = ARGV[at + 3] == '=' and descriptor or ARGV[at + 3]
    found[#found + 1] = {
      inv = KEYS[key], sch = is_of_schedule(slot) and KEYS[key + 1] or '', history = KEYS[key + 2], message = message,
      slot = slot, token = ARGV[at + 2], descriptor = descriptor, name = app .. '|' .. slot,
      member = message .. '|' .. slot,
    }
    at = at + 4
  end
  return found
end

local function read(one)
  return redis.call('HMGET', one.inv, 's:' .. one.name, 'v', 'd:' .. one.name, 'env')
end

-- granted(one, f): the answer for what an earlier run of this step claimed; nothing for anything else.
local function granted(one, f)
  local state, attempt, owner = parsed(f[1])
  if state == 'claimed' and owner == one.token and not is_beyond(f[2], f[3]) then
    return { 'claimed', attempt, f[3], f[4] or '' }
  end
end

-- is_last(attempts made, pinned): whether no attempt would be left if its worker died before this one begins.
local function is_last(attempt, pinned)
  return attempt >= tonumber(string.match(pinned, '"retries":(%d+)') or 0)
end

local function leave_ready(one)
  redis.call('ZREM', ready_app, one.member)
  is_index_old = true
end

local function claim(one)
  local f = read(one)
  if is_beyond(f[2], f[3]) then
    return { 'newer' }
  end
  local state, attempt = parsed(f[1])
  if granted(one, f) then
    return granted(one, f)
  end
  if state ~= 'ready' then
    leave_ready(one)
    return { 'taken' }
  end
  local due = redis.call('ZSCORE', ready_app, one.member)
  if due and tonumber(due) > now then
    return { 'later' }
  end
  if places <= in_hand and is_last(attempt, f[3] or one.descriptor) then
    -- Nothing behind it goes first, or it would never be its turn.
    places = 0
    return { 'left' }
  end
  local answer, more = admit({
    inv = one.inv, sch = one.sch, pins = KEYS[4], leases = leases, ready = ready, ready_app = ready_app, app = app,
    message = one.message, slot = one.slot, descriptor = one.descriptor, revision = ARGV[2], token = one.token,
    now = now, lease_ms = lease_ms, stranded = KEYS[7], attempt = attempt, pinned = f[3],
  })
  if answer == 'elsewhere' then
    return { 'elsewhere' }
  end
  leave_ready(one)
  if answer == 'claimed' then
    return { 'claimed', more, f[3] or one.descriptor, f[4] or '' }
  end
  if EARLY_ENDS[answer] then
    close_replay(one.inv, KEYS[6], '')
    end_unadmitted(one.inv, KEYS[5], group, one.message, one.name, answer, more, one.history, fields)
    release_schedule(one.sch, ready, ready_app, app, one.member, now)
  end
  return { answer }
end

local all, answers = candidates(), {}
if is_again then
  for i, one in ipairs(all) do
    answers[i] = granted(one, read(one))
    places = places - (answers[i] and 1 or 0)
  end
end
for i, one in ipairs(all) do
  if places <= 0 and not is_again then
    break
  end
  if not answers[i] then
    answers[i] = places > 0 and claim(one) or { 'left' }
    places = places - (answers[i][1] == 'claimed' and 1 or 0)
  end
end
if is_index_old then
  refresh_ready(ready, ready_app, app)
end
return answers
