"""The client of Lockgate's HTTP API: a program drives sessions as a person does (docs/client.md).

`lockgate.client.Client` is what a program opens; `lockgate.errors` has what it raises, `lockgate.shapes` and
`lockgate.workflow_shapes` what it returns. The package knows the API alone and imports nothing of the application: it
can be copied beside a program of any kind, which then needs httpx2, pydantic and standardwebhooks.
"""
