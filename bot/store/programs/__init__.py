"""The store's parts for programs: tokens, webhooks, and notices of changes."""
