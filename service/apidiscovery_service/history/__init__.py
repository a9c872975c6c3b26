"""What was served when: every change of every cluster, and of what this server merges."""
