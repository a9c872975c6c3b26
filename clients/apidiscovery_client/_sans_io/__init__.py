"""What both clients do, without I/O: what is known, when to ask, what to wait for."""
