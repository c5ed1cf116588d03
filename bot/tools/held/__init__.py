"""Parts of held results that a session may name or be shown: handles of identifiers, and skeletons."""
