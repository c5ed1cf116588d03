"""What the store does for programs, and for people's pages: it tells what changed, so that none has to ask for it."""
