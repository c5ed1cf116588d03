"""Turns: claimed, run and ended.

`worker` works sessions: `work_finder` finds them, `claimer` claims them, `turn_slots` bounds how many. `turn_runner`
runs one turn that `turn_opener` opened, under a lease (`lease`), and `turn_signals` shows meanwhile that it runs.
`finish` ends it, `approval_request` has it wait for people, `model_loader` loads the models when a turn needs one.
"""
