"""Delivery: texts are kept in the outbox, decided on again when they are sent, and reported where they may be lost.

`outbox` is the only sender, `relay` drains it, `rate_limits` spaces it out, `previews` shows an answer while it is
written. `alternatives` offers other places for refused answers, `approval_prompts` words questions to people, and
`question_updates` keeps those questions current. `undelivered` reports lost answers, `holding` held items, and `alerts`
tells the owner about failures that only they can mend.
"""
