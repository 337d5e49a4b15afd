-- A replay of a dead letter is a message of its own, whose hash names the letter in `replay`. While it is not over, the
-- marks have the letter's id with the message that stands for it; `removed` there counts letters taken out on purpose.

-- close_replay(inv, marks, letters): ends a replay. With `letters` it went well, and the letter goes too.
local function close_replay(inv, marks, letters)
  local letter = redis.call('HGET', inv, 'replay')
  if not letter then
    return
  end
  redis.call('HDEL', marks, letter)
  if letters ~= '' then
    redis.call('HINCRBY', marks, 'removed', redis.call('XDEL', letters, letter))
  end
end

-- has_letter(inv, letters): whether this is a replay whose letter still stands, so that its failure needs no other.
local function has_letter(inv, letters)
  local letter = redis.call('HGET', inv, 'replay')
  return letter and #redis.call('XRANGE', letters, letter, letter) > 0
end
