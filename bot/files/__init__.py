"""Files with a label beside each: the file root that all sessions share, and the workspaces of sessions.

`locations` are paths taken apart, without any I/O. `port` has the methods of a place that keeps files, and `kept` those
for the operator's commands. `local` implements them with folders of this machine, `bucket` with an S3-compatible bucket
that several machines share.
"""
