"""Inputs on their way into the context: messages, and the files that came with them.

`admission` lets a message in, step 5 of the way of one message. `attachments` fetches its files and keeps them in the
session's workspace; `kinds` detects the type of a file, `names` makes its name safe. `transcription` has recordings
transcribed, `ambient` adds observed messages.
"""
