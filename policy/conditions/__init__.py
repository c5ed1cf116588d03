"""The conditions of rules: their expressions, the variables they may name, times, and how many are asked at once."""
