"""The configuration: what config.yaml may say, and reading it with every problem named by file and line."""
