"""Settings of the sinks that observe the program: traces by OpenTelemetry, and metrics for Prometheus."""
