"""The parts of `lockgate doctor` beside looking: `probe` tries things out, `fix` mends safe things."""
