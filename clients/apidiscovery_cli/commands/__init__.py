"""The subcommands, a module for each."""
