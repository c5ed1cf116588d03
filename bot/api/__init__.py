"""The HTTP API: programs drive sessions as people do, through the same router, `authorize()` and gate.

The way of a request: `server` reads HTTP, and `entrance` decides whether it comes in (token, limits, size).
`application` routes it, a module of routes answers, and `errors` puts every refusal into one shape. FastAPI, Starlette
and uvicorn are imported here alone, and when a process begins to serve.
"""
