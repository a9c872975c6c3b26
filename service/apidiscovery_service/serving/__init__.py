"""The transports, and what stands before them."""
