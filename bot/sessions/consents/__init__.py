"""The consents of people beside an approval, as values: grants, and releases of texts and of calls."""
