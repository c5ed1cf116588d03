"""The entrance of the API: what stands before the framework, how often callers may ask, and how long they may take."""
