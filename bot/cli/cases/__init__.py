"""Parts of the cases that `lockgate policy test` runs."""
