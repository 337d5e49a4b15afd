-- Acts of operators on one schedule are numbered, so that a server which has lost everything can be told which was the
-- last: `control` is the server's time of the act in ms, and above the number before, whatever its clock does. `untold`
-- lists the acts (JSON) that no worker has told of yet.
local MOST_UNTOLD = 16

-- enact(sch, action, by, why, now): numbers an act and leaves it for one worker to tell.
local function enact(sch, action, by, why, now)
  local marks = redis.call('HMGET', sch, 'control', 'untold')
  local number = math.max(tonumber(marks[1] or '0') + 1, now)
  local acts = marks[2] and cjson.decode(marks[2]) or {}
  acts[#acts + 1] = { action = action, by = by, reason = why }
  if #acts > MOST_UNTOLD then
    table.remove(acts, 1)
  end
  redis.call('HSET', sch, 'control', string.format('%d', number), 'untold', cjson.encode(acts))
end
