-- surrender(ask, buried, fields): ends as failed what no worker will end: state, dead letter, history, acknowledgement.
-- `ask` has inv, events, ready, ready_app, leases, dead_letters, history, sch, marks, group, message, app, slot, attempt,
-- now. `fields` begins with so many flat dead-letter fields, then come those of the history record. Who calls knows
-- neither contract nor event: both are in the hash.
local function surrender(ask, buried, fields)
  local name, member = ask.app .. '|' .. ask.slot, ask.message .. '|' .. ask.slot
  local f = redis.call('HMGET', ask.inv, 'd:' .. name, 'env')
  local pinned, envelope = f[1] or '', f[2] or ''
  local descriptor, event = decoded(pinned), decoded(envelope)
  local is_occurrence = string.sub(ask.slot, 1, 1) == '@'
  local handler = descriptor.handler or (not is_of_schedule(ask.slot) and ask.slot) or text_or_nil(event.handler) or ''
  local known = {
    'handler', handler, 'scheduled_at', is_occurrence and text_or_nil(event.scheduled_at) or '', 'attempts', ask.attempt,
  }
  local function with(first, last, extra)
    local all = { unpack(fields, first, last) }
    for _, more in ipairs({ known, extra }) do
      for i = 1, #more do
        all[#all + 1] = more[i]
      end
    end
    return all
  end
  if not has_letter(ask.inv, ask.dead_letters) then
    bury(ask.dead_letters, with(1, buried, { 'descriptor', pinned, 'event', envelope }))
  end
  local story = story_of(ask.inv)
  redis.call('ZREM', ask.leases, ask.app .. '|' .. member)
  redis.call('ZREM', ask.ready_app, member)
  refresh_ready(ask.ready, ask.ready_app, ask.app)
  close_replay(ask.inv, ask.marks, '')
  finish(ask.inv, ask.events, ask.group, ask.message, name, 'failed', ask.attempt, '')
  release_schedule(ask.sch, ask.ready, ask.ready_app, ask.app, member, ask.now)
  local allowed = tonumber(descriptor.retries)
  local extra = { 'of', allowed and allowed + 1 or '', 'finished', ask.now }
  conclude(story, ask.history, ask.events, ask.app, ask.slot, with(buried + 1, #fields, extra))
end
