"""Commands and services for operators: health for probes, and metrics."""
