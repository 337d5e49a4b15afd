-- Changes how the namespace gets its desired state: from files (pull) or from releases (push).
--
-- KEYS  1 the mode   2 revisions by app   3 the serial of the last release   4 records of releases
-- ARGV  1 the mode that is wanted   2 the mode that was seen, '' for none
-- Answers changed | the mode that is there instead of the one that was seen
-- Idempotent: where the wanted mode is there already, it is changed. To pull, nobody is bound any more; to push, workers
-- follow the last release there was, if any, so it binds them again. The registry stays as it is either way.
local mode = redis.call('GET', KEYS[1]) or ''
if mode ~= ARGV[2] and mode ~= ARGV[1] then
  return mode
end
local record = ARGV[1] == 'push' and redis.call('HGET', KEYS[4], redis.call('GET', KEYS[3]) or '0')
-- A record that relayctl did not write binds nobody.
local is_read, release = pcall(cjson.decode, string.match(record or '', '^%d+|[^|]*|[^|]*|(.*)$') or '')
local revisions = is_read and type(release) == 'table' and release.revisions
redis.call('SET', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
if type(revisions) == 'table' then
  for app, revision in pairs(revisions) do
    redis.call('HSET', KEYS[2], app, revision)
  end
end
return 'changed'
