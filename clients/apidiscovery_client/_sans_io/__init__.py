"""The logic of both clients without I/O: their state, when to ask, what to wait for."""
