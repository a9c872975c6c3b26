"""The `apidiscovery` command: subcommands, their options and output."""
