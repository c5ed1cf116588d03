"""The application put together: the one place that makes every part and hands it to the others.

`app` opens and closes it, `adapters` makes the platforms, `extensions` takes the additions of developers, `keys` makes
the keys of a data directory, `first_run` its first content.
"""
