"""The policy document: its entries, how text becomes a document, and the changes that people make while the bot runs."""
