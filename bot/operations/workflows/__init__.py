"""What the chat, the command line and the API offer about workflows."""
