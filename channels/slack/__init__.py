"""The Slack adapter."""
