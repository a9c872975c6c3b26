"""`apidiscovery api-resources`, and the listing options that other commands share with it."""

from dataclasses import dataclass

import click
from apidiscovery_client._kubectl import SORT_KEYS, Selection, failures, select
from apidiscovery_client.model import Snapshot

from apidiscovery_cli.discovery import SOURCE, Source, discover, refuse_nothing, source_of
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.options import BOOLEAN, Option, Values, with_options
from apidiscovery_cli.output import write
from apidiscovery_cli.printing import OUTPUTS, print_resources

OUTPUT: Option = click.option(
    "--output",
    "-o",
    type=click.Choice([name for name in OUTPUTS if name]),
    metavar="wide|name|json|yaml",
    help="Output format, by default a table.",
)
NO_HEADERS: Option = click.option("--no-headers", is_flag=True, help="Don't print headers.")
LISTING: tuple[Option, ...] = (
    OUTPUT,
    NO_HEADERS,
    click.option("--api-group", help="Limit to resources in the specified API group."),
    click.option(
        "--namespaced",
        type=BOOLEAN,
        is_flag=False,
        flag_value=True,
        metavar="BOOLEAN",
        help="Limit to namespaced resources, or with =false to cluster-scoped ones.",
    ),
    click.option(
        "--verbs",
        multiple=True,
        help="Limit to resources that support all of these verbs, such as list,watch.",
    ),
    click.option(
        "--categories", multiple=True, help="Limit to resources in all of these categories."
    ),
    click.option(
        "--sort-by",
        type=click.Choice([name for name in SORT_KEYS if name]),
        metavar="name|kind",
        help="Sort by this column instead of by group and name.",
    ),
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which resources to list, and how."""

    selection: Selection
    sort_by: str
    output: str
    headers: bool

    def print(self, snapshot: Snapshot) -> None:
        """Print the resources of a snapshot; raise `IncompleteDiscovery` for what it lacks."""
        resources = select(snapshot, self.selection, self.sort_by)
        text = print_resources(resources, self.output, headers=self.headers)
        write(text, failures(snapshot))


def listing_of(values: Values) -> ListOptions:
    """Take the listing out of the values of the current command."""
    selection = Selection(
        api_group=values.pop("api_group"),
        namespaced=values.pop("namespaced"),
        verbs=_words(values.pop("verbs")),
        categories=_words(values.pop("categories")),
    )
    return ListOptions(
        selection,
        sort_by=values.pop("sort_by") or "",
        output=values.pop("output") or "",
        headers=not values.pop("no_headers"),
    )


def _words(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a repeatable option, each value of which may be comma-separated."""
    return tuple(word for value in values if value for word in value.split(","))


@click.command("api-resources", cls=Command)
@with_options(LISTING, listing_of)
@with_options(SOURCE, source_of)
def api_resources(source: Source, listing: ListOptions) -> None:
    """Print the supported API resources on the server."""
    snapshot = discover(source)
    listing.print(snapshot)
    refuse_nothing(snapshot)
