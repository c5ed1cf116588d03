"""The records that runs leave in a git repository: what is written, under which key, and who writes it."""
