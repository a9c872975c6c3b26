"""Discovery over HTTP without I/O: requests, and what their answers mean."""
