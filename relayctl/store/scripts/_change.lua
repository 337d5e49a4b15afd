-- announce(counter, log, name): tells every worker that the registry's record of this app/schedule has changed.
local function announce(counter, log, name)
  local seq = redis.call('INCR', counter)
  redis.call('XADD', log, 'MAXLEN', '~', 4096, seq .. '-0', 's', name)
end
