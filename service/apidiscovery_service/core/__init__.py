"""What is served, and in which order and form: pure, without I/O."""
