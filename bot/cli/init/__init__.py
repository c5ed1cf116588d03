"""`lockgate init`: answers become config.yaml.

`answers` and `changes` are the pure core, and `editing` puts changes into the text of a file. `asking` asks, `checks`
try a model or a platform, `claim` finds the owner by a code, `file` writes, and `wizard` goes through all of it.
"""
