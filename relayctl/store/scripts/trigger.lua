-- Starts a manual run of a schedule, once per key: a message of its own kind, which is no firing.
--
-- KEYS  1 the run's dedup string   2 the stream   3 the schedule's hash
-- ARGV  1 envelope (JSON)   2 life of the dedup in ms   3… further flat fields of the entry
-- Answers {accepted, entry id} | {duplicate, entry id} (that key was used before) | {unknown} (no such schedule)
-- Idempotent by key. The entry is appended first: a key without a run would lose it, a run without its key is harmless.
local known = redis.call('GET', KEYS[1])
if known then
  return { 'duplicate', known }
end
local hash = redis.call('HGET', KEYS[3], 'hash')
if not hash or hash == 'tombstone' then
  return { 'unknown' }
end
local fields = { 'event', ARGV[1] }
for i = 3, #ARGV do
  fields[#fields + 1] = ARGV[i]
end
local entry = redis.call('XADD', KEYS[2], '*', unpack(fields))
redis.call('SET', KEYS[1], entry, 'PX', ARGV[2])
return { 'accepted', entry }
