"""Background sessions and messages between sessions.

`spawn` starts sessions, `handoff` carries messages between them, `receipts` report their arrival, and
`structured_result` bounds the answer of an UNTRUSTED session.
"""
