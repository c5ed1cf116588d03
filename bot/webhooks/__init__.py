"""Webhooks: events of programs' sessions, sent to servers that the programs name.

A webhook gets the events that its program could read itself at that moment, and nothing else: `delivery` decides at
each try. `sender` does a process's work for all webhooks, `delivery` for one of them, `attempt` is one request, and
`keeper` carries out programs' requests.
"""
