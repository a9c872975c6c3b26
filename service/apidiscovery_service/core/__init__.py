"""The groups that are served, their order and their form; pure, without I/O."""
