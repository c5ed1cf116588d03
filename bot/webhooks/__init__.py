"""Webhooks: events of programs' sessions, sent to servers that the programs name.

A webhook is told what its program could read itself at that moment, and nothing else: `delivery` decides at each try.
`sender` is what a process does for all webhooks, `delivery` for one of them, `attempt` is one request, and `keeper` is
what programs ask for.
"""
