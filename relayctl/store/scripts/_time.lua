-- now_ms(given): milliseconds since 1970; the server's TIME unless the caller holds the clock and hands an instant.
local function now_ms(given)
  if given and given ~= '' then
    return tonumber(given)
  end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
