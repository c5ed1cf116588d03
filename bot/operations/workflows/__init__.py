"""The operations on workflows for the chat, the command line and the API."""
