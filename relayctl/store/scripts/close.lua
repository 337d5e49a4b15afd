-- Closes firings that nobody will publish, as one range each: whoever writes an instant's state first wins.
--
-- KEYS  1 the schedule's hash   2 its published set   3 its history   4 the stream
-- ARGV  1 first and 2 last instant in epoch seconds, both of them firings   3 how many firings that is
--       4 verdict   5 reason   6 app   7 schedule   8 how many fields of their own in the range the caller has judged, and
--       9 how many of these are firings   10… flat fields of the history record
-- Answers {closed, how many} | {settled} (all of it was published or closed before)
--       | {again, after} (what is not later than that instant is settled: ask for the rest)
--       | {judge, instant…} (these have a field of their own; one by hand may be no firing, which only the caller can say)
--       | {split, until} (another range or a pause begins in this one: ask up to that instant, then for the rest)
-- Idempotent. One instant is one field and a range is one field, whatever its length; what has a field of its own in
-- a range keeps it. Nothing at or below the floor is touched.
--@include invocation
--@include closing
local sch, pub = KEYS[1], KEYS[2]
local first, last, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local marks = redis.call('HMGET', sch, 'floor', 'shut', 'paused', 'paused_until')
local paused, resumed = tonumber(marks[3]), tonumber(marks[4])

local function settled_up_to(mark)
  return mark >= last and { 'settled' } or { 'again', mark }
end

if is_under(marks[1], first) then
  return settled_up_to(tonumber(marks[1]))
end
if is_under(marks[2], first) then
  local high = range_over(pub, first)
  if high then
    return settled_up_to(high)
  end
end
-- What a pause covers is closed by its end, as paused.
if paused and ARGV[4] ~= 'paused' and last >= paused and not (resumed and first >= resumed) then
  if first >= paused then
    return settled_up_to(resumed and resumed - 1 or last)
  end
  return { 'split', paused - 1 }
end
local value = 'c|' .. ARGV[4] .. '|' .. ARGV[5]
if first == last then
  count = redis.call('HSETNX', pub, ARGV[1], value)
else
  local own = {}
  for _, field in ipairs(redis.call('HKEYS', pub)) do
    local low, high = string.match(field, '^(%d+)%-?(%d*)$')
    if low and tonumber(low) >= first and tonumber(low) <= last then
      if high ~= '' then
        return { 'split', tonumber(low) - 1 }
      end
      own[#own + 1] = field
    end
  end
  -- Above the floor fields are only ever added, so their number tells whether they are those that were judged.
  if #own ~= tonumber(ARGV[8]) then
    return { 'judge', unpack(own) }
  end
  count = count - tonumber(ARGV[9])
  if count > 0 then
    redis.call('HSET', pub, ARGV[1] .. '-' .. ARGV[2], value)
  end
end
if count <= 0 then
  return { 'settled' }
end
if not is_under(marks[2], last) then
  redis.call('HSET', sch, 'shut', ARGV[2])
end
local fields, named = split({ unpack(ARGV, 10) })
if first ~= last then
  fields[#fields + 1] = 'count'
  fields[#fields + 1] = count
end
record(KEYS[3], fields)
if named.offer then
  named.app, named.schedule, named.count = ARGV[6], ARGV[7], count
  offer(KEYS[4], named)
end
return { 'closed', count }
