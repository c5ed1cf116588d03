"""Tools of the agent, one file each (or a group).

A tool declares, in one visible place, its effect, the label of its result and the clearance of its sink (`declare`),
and does its work in `run`. Only the gate calls either. `docs/writing-a-tool.md` shows how to add one.
"""
