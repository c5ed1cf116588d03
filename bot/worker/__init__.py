"""Turns: claimed, run and ended.

`worker` claims sessions and runs their turns under a lease (`lease`), `finish` ends a turn, `approval_request` has it
wait for people, `model_loader` loads the models when the first turn needs one.
"""
