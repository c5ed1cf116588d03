"""Who somebody is, what a place may know, and what a decision is made about.

`authorize` decides on roles, `principals` and `pairing` tell people, `recipients` places; `labelling` gives labels,
`authors` tells whose words command, `approvals` what people allowed, `known_urls` which addresses they wrote.
`decision_context` is where a session stands, `session_ids` which session an address has.
"""
