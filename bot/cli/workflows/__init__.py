"""The command line about workflows."""
