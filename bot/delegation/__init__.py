"""Sessions that work for sessions.

`spawn` starts them, `handoff` carries what they say to one another, `receipts` tell what became of it, and
`structured_result` bounds what an UNTRUSTED one may answer.
"""
