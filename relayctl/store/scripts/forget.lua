-- Deletes one consumer of the group, but only while nothing is pending under its name: deleting drops what is.
--
-- KEYS  1 the stream
-- ARGV  1 group   2 consumer
-- Answers 1 if deleted, else 0
-- Idempotent.
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local fields = {}
  for i = 1, #consumer, 2 do
    fields[consumer[i]] = consumer[i + 1]
  end
  if fields['name'] == ARGV[2] and fields['pending'] == 0 then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
    return 1
  end
end
return 0
