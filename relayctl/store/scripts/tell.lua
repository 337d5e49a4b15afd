-- Takes the acts of operators that nobody has told of yet, so that one worker of the fleet tells each.
--
-- KEYS  1 the schedule's hash
-- ARGV  none
-- Answers the acts (JSON list of action, by, reason), oldest first, or '' where there are none
-- Idempotent: again it answers ''. A lost answer loses log lines, and nothing that anybody decides by.
local acts = redis.call('HGET', KEYS[1], 'untold')
redis.call('HDEL', KEYS[1], 'untold')
return acts or ''
