"""The client of Lockgate's HTTP API: a program drives sessions as a person does (docs/client.md).

A program opens `lockgate.client.Client`. `lockgate.errors` has the errors that it raises, `lockgate.shapes` and
`lockgate.workflow_shapes` the values that it returns. The package knows the API alone and imports nothing of the
application: it can be copied beside a program of any kind, which then needs httpx2, pydantic and standardwebhooks.
"""
