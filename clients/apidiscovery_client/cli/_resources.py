"""`apidiscovery api-resources`, and its options for whatever else lists resources."""

import functools
from collections.abc import Callable
from typing import Concatenate, NamedTuple, ParamSpec, TypedDict, cast

import click

from apidiscovery_client.cli._discovery import Source, discover, with_source
from apidiscovery_client.cli._output import write
from apidiscovery_client.kubectl.listing import (
    OUTPUTS,
    SORT_KEYS,
    Selection,
    print_resources,
    select,
)
from apidiscovery_client.kubectl.view import failures
from apidiscovery_client.model import Snapshot

P = ParamSpec("P")

OUTPUT = click.option(
    "--output",
    "-o",
    type=click.Choice([name for name in OUTPUTS if name]),
    metavar="wide|name|json|yaml",
    help="Output format, by default a table.",
)
NO_HEADERS = click.option("--no-headers", is_flag=True, help="Don't print headers.")
_OPTIONS = (
    OUTPUT,
    NO_HEADERS,
    click.option("--api-group", help="Limit to resources in the specified API group."),
    click.option(
        "--namespaced",
        type=bool,
        is_flag=False,
        flag_value=True,
        help="Limit to namespaced resources, or with =false to the others.",
    ),
    click.option(
        "--verbs", multiple=True, help="Limit to resources that support all of these verbs."
    ),
    click.option(
        "--categories", multiple=True, help="Limit to resources in all of these categories."
    ),
    click.option(
        "--sort-by",
        type=click.Choice([name for name in SORT_KEYS if name]),
        metavar="name|kind",
        help="Sort by this column, by default by group and name.",
    ),
)


class _Flags(TypedDict):
    output: str | None
    no_headers: bool
    api_group: str | None
    namespaced: bool | None
    verbs: tuple[str, ...]
    categories: tuple[str, ...]
    sort_by: str | None


class Listing(NamedTuple):
    """Which resources to list, and how."""

    selection: Selection
    sort_by: str
    output: str
    headers: bool

    def print(self, snapshot: Snapshot) -> None:
        """Print those of a snapshot; raise `IncompleteDiscovery` for what it cannot tell."""
        resources = select(snapshot, self.selection, self.sort_by)
        text = print_resources(resources, self.output, headers=self.headers)
        write(text, failures(snapshot))


def with_listing(command: Callable[Concatenate[Listing, P], None]) -> Callable[..., None]:
    """Add kubectl's options for listing resources to a command, which gets the `Listing`."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        flags = cast("_Flags", {name: kwargs.pop(name) for name in _Flags.__annotations__})
        command(_listing(flags), *args, **kwargs)

    for option in reversed(_OPTIONS):
        option(run)
    return run


@click.command("api-resources")
@with_listing
@with_source
def api_resources(source: Source, listing: Listing) -> None:
    """Print the supported API resources on the server."""
    listing.print(discover(source))


def _listing(flags: _Flags) -> Listing:
    selection = Selection(
        api_group=flags["api_group"],
        namespaced=flags["namespaced"],
        verbs=_words(flags["verbs"]),
        categories=_words(flags["categories"]),
    )
    return Listing(
        selection, flags["sort_by"] or "", flags["output"] or "", not flags["no_headers"]
    )


def _words(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a flag that takes several, comma-separated, and may be repeated."""
    return tuple(word for value in values if value for word in value.split(","))
