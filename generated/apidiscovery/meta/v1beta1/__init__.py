"""Generated from protos/ by tools/generate.py. DO NOT EDIT."""
