"""The one inbox of a person: `/approvals` without an id."""
