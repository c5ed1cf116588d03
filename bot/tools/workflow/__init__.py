"""The tool by which agents go through workflows, and the folder that has their state files."""
