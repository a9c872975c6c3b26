"""The program that kubectl runs to complete `kubectl apidiscovery ...`.

Its arguments are the words after that, the last one incomplete. It prints a line for each
candidate, with a tab between value and description, and at the end a colon and a number.
Source: kubectl pkg/cmd/plugin/plugin_completion.go `SetupPluginCompletion`, cobra completions.go
`ShellCompDirective`.
"""

import sys
from collections.abc import Sequence

from apidiscovery_client._terminal import printable
from click.shell_completion import ShellComplete

from apidiscovery_cli.group import COMPLETE_VARIABLE, apidiscovery
from apidiscovery_cli.output import print_text

_PROGRAM = "kubectl apidiscovery"

_FILES = 0  # ShellCompDirectiveDefault
_NO_FILES = 4  # ShellCompDirectiveNoFileComp
_FOLDERS = 16  # ShellCompDirectiveFilterDirs
_DIRECTIVES = {"file": _FILES, "dir": _FOLDERS}


def main(args: Sequence[str] | None = None) -> int:
    """Print the candidates for the words of a command line, and return the exit code, 0."""
    *words, incomplete = args if args is not None else sys.argv[1:] or [""]
    shell = ShellComplete(apidiscovery, {}, _PROGRAM, COMPLETE_VARIABLE)
    found = shell.get_completions(words, incomplete)
    directive = next((_DIRECTIVES[one.type] for one in found if one.type in _DIRECTIVES), _NO_FILES)
    candidates = [(one.value, one.help or "") for one in found if one.type not in _DIRECTIVES]
    lines = ["\t".join(printable(part) for part in parts if part) for parts in candidates]
    print_text("".join(f"{line}\n" for line in (*lines, f":{directive}")))
    return 0
