"""config.yaml as a file: its place, and its values with their lines."""
