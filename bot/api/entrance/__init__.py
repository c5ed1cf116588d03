"""The entrance of the API: the checks before the framework, the rates of callers, and their time limits."""
