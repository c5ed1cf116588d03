"""The values of workflows: definitions, events and the state document."""
