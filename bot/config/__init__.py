"""The configuration: the schema of config.yaml, and reading it with every problem named by file and line."""
