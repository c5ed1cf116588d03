"""The commands of `lockgate` that come in groups, their arguments and help; what they do is imported when they run."""
