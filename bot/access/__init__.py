"""Access: the identity of a sender, the clearance of an address, and the facts that decisions start from.

`authorize` decides by roles. `principals` and `pairing` identify people, `recipients` and `session_ids` places and
sessions. `labelling` assigns labels, `authors` tells whose words command, `approvals` which calls people allowed, and
`known_urls` which web addresses they wrote. `decision_context` holds the facts of a session at one moment.
"""
