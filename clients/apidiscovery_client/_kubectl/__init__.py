"""What kubectl shows of a server, and how it prints it."""
