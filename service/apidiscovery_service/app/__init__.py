"""The program: configuration, wiring, running. The only place that knows everything."""
