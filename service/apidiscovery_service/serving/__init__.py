"""The transports, and the front before them."""
