"""The policy document: its entries, how text becomes one, and what people change in it while the bot runs."""
