"""What the exit code of a command says.

| exit code | when |
|---|---|
| 0 | done |
| 1 | failed, also in part; the reader of the output went away |
| 2 | bad usage, or the subcommand's extra is not installed |
| 130 | interrupted |
| 143 | terminated, while it watched |

`diff` has two of its own: 1 for a difference, and 2 also when one of its sides cannot be had, or
the report not be written.
"""

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130
