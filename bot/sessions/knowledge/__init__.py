"""What principals' sessions have learned, as values."""
