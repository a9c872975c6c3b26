"""Commands and groups whose help has sections and examples, and that take options first.

Options of a server are the same for all commands: a page shows those that are needed most, and
`apidiscovery options` all of them. They may stand before a subcommand, as with kubectl.
"""

from collections.abc import Iterable, Sequence
from functools import cache

import click
from click.exceptions import NoSuchCommand

from apidiscovery_cli.examples import EXAMPLES

# By their names in Python; `cluster` of `history` is another option, and called `clusters` there.
_FIRST = ("server", "service", "grpc_server", "kubeconfig", "context", "token")
_COMMON = frozenset(
    {
        *_FIRST,
        "as_groups",
        "as_uid",
        "as_user",
        "certificate_authority",
        "client_certificate",
        "client_key",
        "cluster",
        "disable_compression",
        "insecure_skip_tls_verify",
        "password",
        "plaintext",
        "request_timeout_s",
        "tls_server_name",
        "token_file",
        "user",
        "username",
    }
)


class Command(click.Command):
    """A command whose options of a server have a section of their own, and that has examples."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write options in sections."""
        params = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        own = [param for param in params if param.name not in _COMMON]
        first = [param for name in _FIRST for param in params if param.name == name]
        _write(ctx, formatter, "Options", own)
        _write(ctx, formatter, "Server", first)
        if any(param.name in _COMMON and param.name not in _FIRST for param in params):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(
                    "'apidiscovery options' has all options for servers and credentials."
                )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples."""
        _write_examples(ctx, formatter)


def _write_examples(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    _, _, words = ctx.command_path.partition("apidiscovery")
    if examples := EXAMPLES.get(words.strip(), ()):
        with formatter.section("Examples"):
            for line in examples:  # never wrapped, to be copied
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _write(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    title: str,
    params: Iterable[click.Parameter],
) -> None:
    if records := [record for param in params if (record := param.get_help_record(ctx))]:
        with formatter.section(title):
            formatter.write_dl(records)


class Group(click.Group):
    """A group that takes the options of servers before the name of a subcommand, too."""

    command_class = Command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples."""
        _write_examples(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move options of servers behind the name of the subcommand."""
        return super().parse_args(ctx, _options_last(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand; the error for an unknown one has suggestions."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            names = self.list_commands(ctx)
            raise NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None


def _options_last(args: Sequence[str]) -> list[str]:
    """Return words with the options of servers that come first behind the next word.

    Other words, and an option at the end, stay where they are.
    """
    end = 0
    while end < len(args) and args[end].startswith("-") and args[end] != "--":
        name, equals, _ = args[end].partition("=")
        takes_value = _takes_value().get(name)
        if takes_value is None:
            break
        end += 2 if takes_value and not equals else 1
    if not 0 < end < len(args):
        return list(args)
    return [args[end], *args[:end], *args[end + 1 :]]


@cache
def _takes_value() -> dict[str, bool]:
    """Return for each option of servers whether a value follows it."""
    from apidiscovery_cli.connection_options import all_options  # noqa: PLC0415 - seldom needed

    return {
        name: not (isinstance(param, click.Option) and param.is_flag)
        for param in all_options()
        for name in param.opts
    }
