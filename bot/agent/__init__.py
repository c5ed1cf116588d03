"""The agent's turn: a loop of our own over pydantic-ai's models (ADR 0003).

`context` turns the log into the messages that a model reads. `loop` asks the model and runs its calls until it answers,
`calls` takes one step's tool calls through the gate. `providers` makes the configured models, `models` asks one of
them, `chain` asks them in turn, `window` estimates the size that one can read at once. `recap` makes a long
conversation short, `offline` is the model without a network. Import these only after the first prompt is shown:
pydantic-ai takes its time.
"""
