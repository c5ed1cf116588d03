"""The records that runs leave in a git repository: their content, their key, and their writer."""
