"""What people ask of an installation at the command line and in a chat: each operation once, as data for both."""
