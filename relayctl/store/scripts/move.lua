-- Gives a schedule a new name, once: where the old one is in force and the new one is not.
--
-- KEYS  1 the old schedule's hash   2 its published set   3 the new one's hash   4 its published set
--       5 the change counter   6 the change log   7 the set of all names   8 the removed schedules whose account is open
-- ARGV  1 mode: start | edit | adopt   2 hash of the new definition   3 its spec (JSON)
--       4 generation of the old one that the caller held (0: none)   5 generation of the new one's tombstone that it saw
--       6 old name as app/schedule   7 new name as app/schedule   8 now in ms, or ''
-- Answers moved | nothing (the old name is not in force: there is nothing to move from) | taken (the new one is in force)
--       | behind (the new name was removed or moved on, and this may be content of before)
-- Idempotent: again it answers `nothing`.
--@include time
--@include change
--@include definition
--@include move
local old = { sch = KEYS[1], pub = KEYS[2], name = ARGV[6] }
local new = { sch = KEYS[3], pub = KEYS[4], name = ARGV[7] }
local mode, hash, now = ARGV[1], ARGV[2], now_ms(ARGV[8])
local before, there = head_of(old.sch), head_of(new.sch)
if not before[1] or before[2] == 'tombstone' then
  return 'nothing'
end
if there[1] and there[2] ~= 'tombstone' then
  return 'taken'
end
if there[1] and redis.call('HEXISTS', new.sch, 'h:' .. hash) == 1 then
  local is_live_edit = mode == 'edit' and ARGV[4] == before[1]
  local is_adoption = mode == 'adopt' and ARGV[5] == there[1]
  if not (is_live_edit or is_adoption) then
    return 'behind'
  end
end
carry(old, new, KEYS[7], KEYS[8], now)
if hash ~= before[2] then
  define({ sch = new.sch, pub = new.pub, all = KEYS[7], gone = KEYS[8], name = new.name, hash = hash, spec = ARGV[3],
    now = now }, head_of(new.sch))
end
announce(KEYS[5], KEYS[6], old.name)
announce(KEYS[5], KEYS[6], new.name)
return 'moved'
