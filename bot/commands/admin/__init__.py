"""Commands of those who administer an installation: people, chats, the policy, the audit, dead letters."""
