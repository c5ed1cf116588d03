"""The trials of `lockgate doctor --probe`: `models` are asked for one token, `ports` bound, and the `machine` measured.

Each probe has a time limit, and those that wait run side by side. No finding holds a value of a secret.
"""
