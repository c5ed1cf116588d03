"""What everything else may ask of the store, a port for each part of it, and `store` for the whole."""
