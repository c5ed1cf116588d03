"""The command line: `main` names the commands, each module beside it carries out one or two."""
