-- Take a session that came back from a backup out of the hands of the processes of its time. They may have sent its
-- waiting texts since, so a sender gets these as ambiguous. Texts for other sessions stay: these know them again.
-- Its grants may have been used or revoked since, so they end.
-- Arguments: inside (the channel of other sessions).
-- Answers: ok open waiting doubtful principal background.

if not read_state(K.state) then return reply('ok') end
local doubtful = 0
give_back()
if S.status == Status.deleted then
  -- It may have been deleted while it was copied: the rest of it is erased once more.
  set(F.erasing, true)
else
  read_ahead(K.approvals)
  for id, approval in pairs(records(K.approvals)) do end_grant(id, approval, GrantEnd.lost) end
  for key, delivery in pairs(records(K.outbox)) do
    if unsettled(delivery) and delivery.channel ~= A.inside then
      delivery.state, delivery.lapses, delivery.sender, delivery.op = Delivery.sending, 0, '', ''
      put_delivery(key, delivery)
      doubtful = doubtful + 1
    end
  end
end
save(K.state)
return reply('ok', with_pool({open = S.turn ~= nil, waiting = count(F.waiting), doubtful = doubtful}))
