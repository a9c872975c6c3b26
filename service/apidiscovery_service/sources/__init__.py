"""Where contributions come from: the packaged catalogue and manifest files."""
