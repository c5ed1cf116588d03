"""What is taken out of a text: patterns, the checks of what they find, and the text without it."""
