"""The `apidiscovery` command: commands, their options and output; what only they need."""
