"""`apidiscovery completion`: scripts that make shells complete our commands."""

import os
from typing import ClassVar

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from apidiscovery_cli.group import COMPLETE_VARIABLE, PROGRAM, apidiscovery
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.output import print_text

_SHELLS = ("bash", "zsh", "fish", "powershell")


class PowerShellComplete(ShellComplete):
    """Completion in PowerShell from 5.1 on, which passes the line up to the cursor.

    We print a line for each candidate: type, value and help, separated by tabs.
    """

    name: ClassVar[str] = "powershell"
    source_template: ClassVar[str] = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $line = $commandAst.Extent.Text
    $end = $cursorPosition - $commandAst.Extent.StartOffset
    if ($end -lt $line.Length) { $line = $line.Substring(0, $end) }
    $before = $env:%(complete_var)s, $env:COMP_WORDS, $env:COMP_CWORD
    $env:%(complete_var)s = 'powershell_complete'
    $env:COMP_WORDS = $line
    $env:COMP_CWORD = $wordToComplete
    try { $found = @(& %(prog_name)s 2>$null) }
    finally { $env:%(complete_var)s, $env:COMP_WORDS, $env:COMP_CWORD = $before }
    foreach ($one in $found) {
        $type, $value, $help = $one -split "`t", 3
        if ($type -ne 'plain') { continue }
        if (-not $help) { $help = $value }
        [System.Management.Automation.CompletionResult]::new(
            $value, $value, 'ParameterValue', $help)
    }
}
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the incomplete one at the cursor."""
        words = split_arg_string(os.environ.get("COMP_WORDS", ""))[1:]
        incomplete = os.environ.get("COMP_CWORD", "")
        if incomplete and words and words[-1] == incomplete:
            words.pop()
        return words, incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the line of a candidate."""
        return "\t".join((item.type, item.value, " ".join((item.help or "").split())))


add_completion_class(PowerShellComplete)


class _Shell(click.Choice[str]):
    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """Return the end of the message for a missing argument, in one line."""
        del param, ctx
        return f"Choose from {', '.join(self.choices)}"


@click.command("completion", cls=Command)
@click.argument("shell", type=_Shell(_SHELLS), metavar="|".join(_SHELLS))
def completion(shell: str) -> None:
    """Print the script with which a shell completes commands.

    Run one of these lines, or put it into the file that the shell reads when it starts:

    \b
        bash:       source <(apidiscovery completion bash)
        zsh:        source <(apidiscovery completion zsh)
        fish:       apidiscovery completion fish | source
        powershell: apidiscovery completion powershell | Out-String | Invoke-Expression

    Names of resources come from the disk cache, contexts from the kubeconfig. Only 'get' asks the
    server for names.
    """  # noqa: D301 - \b is a control character for click
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this release of click has no completion for {shell}")
    made = kind(apidiscovery, {}, PROGRAM, COMPLETE_VARIABLE)
    script = made.source_template % made.source_vars()
    # Bash would complete what comes after the colon alone.
    print_text(f"{script}COMP_WORDBREAKS=${{COMP_WORDBREAKS//:}}\n" if shell == "bash" else script)
