"""MCP servers: started or reached when a tool of theirs is first called, kept, ended, and started again.

`arguments` makes a tool's argument type of its configuration, and `process` and `http` carry messages. `connection` is
one server's life, `servers` all of them, and `results` makes text of a tool's results. The official client library does
the protocol; it is imported when the first server is needed. A server's words are data: none of them is offered, logged
or shown to a model unless it is a result that the gate labelled (ADR 0009).
"""
