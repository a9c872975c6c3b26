"""Makes click's options and commands of ours, and gives commands what their options describe.

It knows no option itself: who uses it imports what its own options need, and nothing else.
"""

import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from apidiscovery_cli.option_values import duration_s
from apidiscovery_cli.plain_options import BadUsage, Option, PlainCommand, Values

P = ParamSpec("P")
T = TypeVar("T")


class Reads(click.ParamType[Any]):
    """What a function makes of a text; where it raises `ValueError`, usage was bad."""

    def __init__(self, name: str, reads: Callable[[str], object]) -> None:
        self.name = name
        self._reads = reads

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Return the value; a default that is no text is one already."""
        if not isinstance(value, str):
            return value
        try:
            return self._reads(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Reads("duration", duration_s)


def click_option(option: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that adds an option to a click command."""
    more: dict[str, Any] = {}
    if option.is_flag:
        more["is_flag"] = True
    elif option.is_repeatable:
        more["multiple"] = True
    elif option.default is not None:
        more["default"] = option.default
    if option.bare is not None:
        more |= {"is_flag": False, "flag_value": option.bare}
    return click.option(
        *option.names,
        option.key,
        type=_type(option),
        metavar=option.metavar,
        envvar=option.variable,
        show_envvar=option.variable is not None,
        show_default=isinstance(option.default, str),  # one that was read need not look as typed
        help=option.help,
        hidden=option.is_hidden,
        **more,
    )


def _type(option: Option) -> click.ParamType[Any] | None:
    if option.choices:
        return click.Choice(list(option.choices))
    if option.path == "file":
        return click.Path(exists=True, dir_okay=False, readable=True)
    if option.path == "folder":
        return click.Path(file_okay=False, path_type=Path)
    if option.reads is None or option.reads is str:
        return None
    return Reads("text", option.reads)


def click_command(plain: PlainCommand) -> click.Command:
    """Return a command for click, which parses its options and tells what is wrong with them."""

    def run(**given: object) -> None:
        with usage_errors():
            plain.run(taken(plain.options, given))

    for option in reversed(plain.options):
        click_option(option)(run)
    return click.command(plain.name, help=plain.help)(run)


def taken(options: Sequence[Option], arguments: dict[str, object]) -> Values:
    """Take the values of options out of the arguments of the click command that runs now."""
    given = {option.key: arguments.pop(option.key) for option in options}
    return values_of(click.get_current_context(), given)


def values_of(context: click.Context, given: Mapping[str, object]) -> Values:
    """Return values that click has read for a command, which knows where they are from."""
    sources = {key: context.get_parameter_source(key) for key in given}
    of_environment = (key for key in given if sources[key] is ParameterSource.ENVIRONMENT)
    return Values(given, frozenset(of_environment))


@contextmanager
def usage_errors() -> Generator[None]:
    """Raise `click.UsageError`, which names the command, for `BadUsage`."""
    try:
        yield
    except BadUsage as error:
        raise click.UsageError(str(error)) from None


def with_options(
    options: Sequence[Option], make: Callable[[Values], T]
) -> Callable[[Callable[Concatenate[T, P], None]], Callable[..., None]]:
    """Add options to a command, which gets first what is made of their values.

    `BadUsage` that `make` raises is told as click tells bad usage.
    """

    def add(command: Callable[Concatenate[T, P], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            with usage_errors():
                made = make(taken(options, kwargs))
            command(made, *args, **kwargs)

        for option in reversed(options):
            click_option(option)(run)
        return run

    return add
