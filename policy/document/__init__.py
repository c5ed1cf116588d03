"""The policy document: its entries, how text becomes a document, and people's changes while the bot runs."""
