-- Closings in a published set: `<instant>`, or `<first>-<last>` for every firing between the two, both included, that
-- has no field of its own; the value is "c|verdict|reason". The schedule's hash has in `shut` the last instant that
-- was closed, so that only a late question looks for a range.

-- range_over(pub, first): the end and the value of the range that covers `first`. Nothing if there is none.
local function range_over(pub, first)
  for _, field in ipairs(redis.call('HKEYS', pub)) do
    local low, high = string.match(field, '^(%d+)%-(%d+)$')
    if low and tonumber(low) <= first and first <= tonumber(high) then
      return tonumber(high), redis.call('HGET', pub, field)
    end
  end
  return nil
end

local function is_under(mark, at)
  return mark and at <= tonumber(mark)
end
