-- generation(sch, gen): from, to, hash, spec of one generation; `to` is nil while it is in force. Nothing if unknown.
-- A past generation is kept as "from|to|hash|spec", the current one in the hash's own fields.
local function generation(sch, gen)
  local head = redis.call('HMGET', sch, 'gen', 'from', 'hash', 'spec')
  if not head[1] then
    return nil
  end
  if head[1] == gen then
    return tonumber(head[2]), nil, head[3], head[4]
  end
  local kept = redis.call('HGET', sch, 'g:' .. gen)
  if not kept then
    return nil
  end
  local from, to, hash, spec = string.match(kept, '^(%d+)|(%d+)|([^|]*)|(.*)$')
  return tonumber(from), tonumber(to), hash, spec
end
