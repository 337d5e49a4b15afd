-- Ends one attempt, and with the last attempt everything that hangs on it: state, dead letter, history, acknowledgement.
--
-- KEYS  1 the message's hash   2 the stream   3 ready apps   4 the app's ready set   5 leases   6 dead letters   7 history
--       8 the schedule's hash, or the message's hash again where none is meant   9 marks of dead letters
--       10 texts of kept output   11 their times   12 times of the owner's
-- ARGV  1 message   2 app   3 slot   4 token   5 outcome: succeeded | failed | released   6 group
--       7 wait in ms before the next attempt, -1 if none is left   8 now in ms, or ''
--       9 the attempt as it was claimed   10 name of its kept output, or ''   11 the output's document
--       12 '1' to renew that only where some is kept   13 attempts kept of one owner   14 bytes kept in all
--       15 number of flat dead-letter fields, then these, then the flat history fields
-- Answers {ended} | {retry, due ms} | {released} | {lost} (the claim is somebody else's now) | {again} (ended before; with
--         the due ms of its next attempt where that still waits)
-- Idempotent by token and attempt. `released` gives the attempt back uncharged. The output is kept with the end it belongs
-- to, so that a stale end leaves none and a crash cannot come between the two; and last, so that it cannot spoil the end.
--@include time
--@include invocation
--@include overlap
--@include replay
--@include output
local inv, events, ready, ready_app, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local message, app, slot, token, outcome = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local now = now_ms(ARGV[8])
local name, member = app .. '|' .. slot, message .. '|' .. slot
local f = redis.call('HMGET', inv, 's:' .. name, 'v', 'd:' .. name, 'kind', 'replay')
local state, attempt, owner = parsed(f[1])
if outcome == 'released' and state == 'ready' and owner == token and attempt == tonumber(ARGV[9]) - 1 then
  return { 'released' }
end
if owner ~= token or not state or attempt ~= tonumber(ARGV[9]) or is_beyond(f[2], f[3]) then
  return { 'lost' }
end
if state ~= 'claimed' then
  return { 'again', redis.call('ZSCORE', ready_app, member) or nil }
end

local kept = {
  texts = KEYS[10], times = KEYS[11], owner = KEYS[12], name = ARGV[10], text = ARGV[11], is_known = ARGV[12] == '1',
  attempts = tonumber(ARGV[13]), bytes = tonumber(ARGV[14]),
}
if outcome == 'released' then
  redis.call('ZREM', leases, app .. '|' .. member)
  -- Its token stays until the next claim, so that the same once more hears the same.
  set_state(inv, name, 'ready', attempt - 1, token)
  make_ready(ready, ready_app, app, member, now)
  keep_output_or_not(kept, now)
  return { 'released' }
end
local wait = tonumber(ARGV[7])
if outcome == 'failed' and wait >= 0 then
  redis.call('ZREM', leases, app .. '|' .. member)
  set_state(inv, name, 'ready', attempt, token)
  make_ready(ready, ready_app, app, member, now + wait)
  keep_output_or_not(kept, now)
  return { 'retry', now + wait }
end

local buried = tonumber(ARGV[15])
-- Of an event that went well nobody asks what it was, and it may be long.
local is_told = outcome == 'failed' or f[4] ~= 'event'
local envelope = is_told and redis.call('HGET', inv, 'env') or ''
if outcome == 'failed' and buried > 0 and not has_letter(inv, KEYS[6]) then
  local fields = { unpack(ARGV, 16, 15 + buried) }
  fields[#fields + 1] = 'event'
  fields[#fields + 1] = envelope
  -- What may be refused comes first, while the lease still stands for the rest.
  bury(KEYS[6], fields)
end
local story = { env = envelope, kind = f[4] or '', is_replay = f[5] and true }
redis.call('ZREM', leases, app .. '|' .. member)
if story.is_replay then
  close_replay(inv, KEYS[9], outcome == 'succeeded' and KEYS[6] or '')
end
finish(inv, events, ARGV[6], message, name, outcome, attempt, token)
release_schedule(is_of_schedule(slot) and KEYS[8] or '', ready, ready_app, app, member, now)
conclude(story, KEYS[7], events, app, slot, { unpack(ARGV, 16 + buried) })
keep_output_or_not(kept, now)
return { 'ended' }
