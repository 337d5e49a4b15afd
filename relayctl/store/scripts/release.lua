-- Publishes a release: its record, the definitions it changes and the revisions it binds the fleet to, all or nothing.
--
-- KEYS  1 the serial in force   2 records   3 revisions by app   4 the mode   5 bundles   6 bundles on their way
--       7 the change counter   8 the change log   9 the set of all names   10 the removed schedules whose account is open
--       then for each schedule: its hash, its published set
-- ARGV  1 the serial that it builds on   2 its id   3 digest of its bundle   4 its text (JSON)   5 now in ms, or ''
--       6 records to keep   7 bundles to keep   8 how many apps, then for each: its name, its revision
--       then for each schedule: app/schedule, hash of the definition ('tombstone' for a removal), spec (JSON),
--       the generation in force that this builds on (0: none)
--       then for each that goes on under another name: which of these is the old one, and which the new one, from 1
-- Answers {published, serial, made at ms} (also to the same id again) | {moved, the serial in force} | {mode, the mode}
--       | {unstaged} (the bundle is not there) | {changed, app/schedule} (another generation is in force)
--       | {foreign, what} (a record that relayctl did not write)
-- Idempotent by id, as long as the record is kept. Everything is checked before the first write, since scripts do not
-- roll back.
--@include time
--@include change
--@include definition
--@include move
local serial_key, records, pins, mode_key, bundles, staged = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local base, id, digest, text = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local now = now_ms(ARGV[5])
local STAGED_MS = 3600 * 1000
local FIRST_KEY, FIRST_APP = 11, 9
local TOLD_SINGLY = 500
local apps = tonumber(ARGV[8])
local first_schedule = FIRST_APP + 2 * apps
local is_told_singly = (#KEYS - FIRST_KEY + 1) / 2 <= TOLD_SINGLY

local function made_of(record)
  return string.match(record, '^(%d+)|([^|]*)|([^|]*)|')
end

local ours = redis.call('HGET', records, base + 1)
if ours then
  local made, its_id = made_of(ours)
  if its_id == id then
    return { 'published', base + 1, tonumber(made) }
  end
end
local serial = tonumber(redis.call('GET', serial_key) or '0')
if serial ~= base then
  return { 'moved', serial }
end
local mode = redis.call('GET', mode_key)
if mode and mode ~= 'push' then
  return { 'mode', mode }
end
if redis.call('HEXISTS', bundles, digest) == 0 then
  return { 'unstaged' }
end
for key, kind in pairs({ [2] = 'hash', [5] = 'hash', [6] = 'zset', [9] = 'set', [10] = 'zset' }) do
  local found = redis.call('TYPE', KEYS[key]).ok
  if found ~= kind and found ~= 'none' then
    return { 'foreign', KEYS[key] }
  end
end

-- is_ours(head): whether the fields that are reckoned with are numbers.
local function is_ours(head)
  for _, i in ipairs({ 1, 3, 5, 6, 7 }) do
    if head[i] and not tonumber(head[i]) then
      return false
    end
  end
  return not head[1] or (head[2] and head[3])
end

local heads = {}
for key = FIRST_KEY, #KEYS, 2 do
  local at, head = first_schedule + 2 * (key - FIRST_KEY), head_of(KEYS[key])
  if (head[1] or '0') ~= ARGV[at + 3] then
    return { 'changed', ARGV[at] }
  end
  if not is_ours(head) then
    return { 'foreign', ARGV[at] }
  end
  heads[key] = head
end

-- A first write that the server refuses for want of memory leaves everything as it was; later ones are not refused.
redis.call('SET', mode_key, 'push')
redis.call('DEL', pins)
for i = 0, apps - 1 do
  redis.call('HSET', pins, ARGV[FIRST_APP + 2 * i], ARGV[FIRST_APP + 2 * i + 1])
end

local function definition_at(key)
  local at = first_schedule + 2 * (key - FIRST_KEY)
  return {
    sch = KEYS[key], pub = KEYS[key + 1], all = KEYS[9], gone = KEYS[10], name = ARGV[at], hash = ARGV[at + 1],
    spec = ARGV[at + 2], now = now,
  }
end

local is_carried = {}
for at = first_schedule + 2 * (#KEYS - FIRST_KEY + 1), #ARGV, 2 do
  local from, to = FIRST_KEY + 2 * (ARGV[at] - 1), FIRST_KEY + 2 * (ARGV[at + 1] - 1)
  local new = definition_at(to)
  carry(definition_at(from), new, KEYS[9], KEYS[10], now)
  is_carried[from], is_carried[to] = true, true
  if new.hash ~= heads[from][2] then
    define(new, head_of(new.sch))
  end
end
for key = FIRST_KEY, #KEYS, 2 do
  if not is_carried[key] then
    define(definition_at(key), heads[key])
  end
end
-- Who does not hear of a change finds it with the next look at all, so a log that cannot be written spoils no release.
if is_told_singly then
  for key = FIRST_KEY, #KEYS, 2 do
    pcall(announce, KEYS[7], KEYS[8], ARGV[first_schedule + 2 * (key - FIRST_KEY)])
  end
else
  -- A gap in the log makes everybody look at all of the registry, which is what so many changes come to.
  redis.pcall('INCRBY', KEYS[7], #KEYS - FIRST_KEY)
end
serial = base + 1
redis.call('HSET', records, serial, now .. '|' .. id .. '|' .. digest .. '|' .. text)
redis.call('HDEL', records, serial - tonumber(ARGV[6]))
redis.call('SET', serial_key, serial)

-- What no kept release refers to goes, but for what is on its way into one.
local kept = {}
for i = serial - tonumber(ARGV[7]) + 1, serial do
  local record = i > 0 and redis.call('HGET', records, i)
  local _, _, its_digest = made_of(record or '')
  kept[its_digest or ''] = true
end
redis.call('ZREM', staged, digest)
redis.call('ZREMRANGEBYSCORE', staged, '-inf', now - STAGED_MS)
for _, found in ipairs(redis.call('HKEYS', bundles)) do
  if not kept[found] and not redis.call('ZSCORE', staged, found) then
    redis.call('HDEL', bundles, found)
  end
end
return { 'published', serial, now }
