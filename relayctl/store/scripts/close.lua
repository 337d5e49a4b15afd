-- Closes firings that nobody will publish, as one range each: whoever writes an instant's state first wins.
--
-- KEYS  1 the schedule's hash   2 its published set   3 its history
-- ARGV  1 first and 2 last instant in epoch seconds, both of them firings   3 how many firings that is
--       4 verdict   5 reason   6… flat fields of the history record
-- Answers {closed, how many} | {settled} (all of it was published or closed before)
--       | {again, end} (what is not later than that instant is settled: ask for the rest)
-- Idempotent. One instant is one field and a range is one field, whatever its length; what has a field of its own in
-- a range keeps it. Nothing at or below the floor is touched.
--@include invocation
--@include closing
local sch, pub = KEYS[1], KEYS[2]
local first, last, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local marks = redis.call('HMGET', sch, 'floor', 'shut')

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
local value = 'c|' .. ARGV[4] .. '|' .. ARGV[5]
if first == last then
  count = redis.call('HSETNX', pub, ARGV[1], value)
else
  for _, field in ipairs(redis.call('HKEYS', pub)) do
    local low, high = string.match(field, '^(%d+)%-?(%d*)$')
    if low and tonumber(low) >= first and tonumber(low) <= last then
      if high ~= '' then
        -- Another range lies in this one. It is found again once its beginning is reached.
        return { 'again', first - 1, tonumber(low) - 1 }
      end
      count = count - 1
    end
  end
  if count > 0 then
    redis.call('HSET', pub, ARGV[1] .. '-' .. ARGV[2], value)
    if not is_under(marks[2], last) then
      redis.call('HSET', sch, 'shut', ARGV[2])
    end
  end
end
if count <= 0 then
  return { 'settled' }
end
record(KEYS[3], { unpack(ARGV, 6) })
return { 'closed', count }
