"""What workflows are made of: definitions, events and the state document."""
