"""What is said: kept in the outbox, decided once more when it is sent, and told again where it may not have arrived.

`outbox` is the only sender, `relay` drains it, `rate_limits` spaces it out, `previews` shows an answer while it is
written. `alternatives` is what is offered in place of what may not be told, `approval_prompts` what people are asked,
`question_updates` keeps those questions true, `undelivered` tells of answers that did not arrive, `holding` of what
waits for a person, `alerts` tells the owner what only they can mend.
"""
