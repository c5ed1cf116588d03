"""The commands of `lockgate` that come in groups, with arguments and help; their code is imported when they run."""
