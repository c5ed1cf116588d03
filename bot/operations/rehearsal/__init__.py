"""Rehearsing a policy on the decisions of the audit."""
