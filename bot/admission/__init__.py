"""What comes in on its way into the context: a message, and the files that came with it.

`admission` lets a message in, step 5 of the way of one message. `attachments` fetches what came with it and keeps it in
the session's workspace; `kinds` looks at what a file is, `names` at what it may be called. `transcription` has what is
said in one written down, `ambient` brings what people said before.
"""
