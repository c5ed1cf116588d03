"""The agent's turn: a loop of our own over pydantic-ai's models (ADR 0003).

`context` turns the log into the messages a model reads, `loop` asks the model and runs what it proposes
until it answers, `calls` takes one step's tool calls through the gate, `offline` is the model without a
network. pydantic-ai is imported by `context`, `models`, `offline`, `calls` and `loop` alone, and nobody
imports those before the first prompt is shown.
"""
