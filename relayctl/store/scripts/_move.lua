-- A schedule under a new name: everything that its record says goes along, so that no firing is lost or owed twice, and
-- the old name keeps a tombstone that says where it went (`moved_to`). The new one lists its former names, the last
-- first (`moved_from`). Runs under way keep the slot that they began under.
local MOST_FORMER_NAMES = 16

local function former_names(sch, old, new)
  local names = { old }
  for name in string.gmatch(redis.call('HGET', sch, 'moved_from') or '', '[^,]+') do
    if name ~= old and name ~= new and #names < MOST_FORMER_NAMES then
      names[#names + 1] = name
    end
  end
  return table.concat(names, ',')
end

-- What ran last under the old name is still in the way of the next one. Of another app, that is said with it.
local function carry_holder(old, new)
  local holder = redis.call('HGET', new.sch, 'holder')
  local old_app, new_app = string.match(old.name, '^[^/]*'), string.match(new.name, '^[^/]*')
  if holder and old_app ~= new_app and not string.find(holder, '^[^|]*|[^|]*|') then
    redis.call('HSET', new.sch, 'holder', holder .. '|' .. old_app)
  end
end

-- carry(old, new, all, gone, now): moves the record. `old` and `new` have sch, pub and name (app/schedule); whoever calls
-- it has made sure that the old one is in force and that nothing else is under the new name, and announces both.
local function carry(old, new, all, gone, now)
  local control = redis.call('HGET', new.sch, 'control')
  local former = former_names(old.sch, old.name, new.name)
  redis.call('COPY', old.sch, new.sch, 'REPLACE')
  if redis.call('COPY', old.pub, new.pub, 'REPLACE') == 0 then
    redis.call('DEL', new.pub)
  end
  redis.call('PERSIST', new.sch)
  redis.call('PERSIST', new.pub)
  -- A waiter stands in nobody's ready set: it stays where it is found and is made ready under its new name.
  redis.call('HDEL', new.sch, 'moved_to', 'waiter')
  redis.call('HSET', new.sch, 'moved_from', former)
  if control and tonumber(control) > tonumber(redis.call('HGET', new.sch, 'control') or '0') then
    redis.call('HSET', new.sch, 'control', control)
  end
  carry_holder(old, new)
  redis.call('SADD', all, new.name)
  redis.call('ZREM', gone, new.name)

  local head = head_of(old.sch)
  define({ sch = old.sch, pub = old.pub, all = all, gone = gone, name = old.name, hash = 'tombstone', spec = '',
    now = now }, head)
  -- Its account went along: nothing up to now is owed under the old name, whoever uses it again.
  redis.call('ZREM', gone, old.name)
  local floor = math.max(tonumber(head[5] or '0'), math.floor(now / 1000))
  redis.call('HSET', old.sch, 'moved_to', new.name, 'floor', string.format('%d', floor))
  redis.call('HDEL', old.sch, 'holder', 'paused', 'paused_until', 'paused_by', 'paused_why', 'untold', 'failures',
    'last_error', 'refused_by')
end
