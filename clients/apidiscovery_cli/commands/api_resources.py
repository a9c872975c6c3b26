"""`apidiscovery api-resources`, and its options for whatever else lists resources."""

from dataclasses import dataclass
from typing import TypedDict, cast

from apidiscovery_client._kubectl import SORT_KEYS, Selection, failures, select
from apidiscovery_client.model import Snapshot

from apidiscovery_cli.discovery import SOURCE, discover, refuse_nothing, source_of
from apidiscovery_cli.option_values import boolean
from apidiscovery_cli.output import write
from apidiscovery_cli.plain_options import Option, PlainCommand, Values
from apidiscovery_cli.printing import OUTPUTS, print_resources

OUTPUT = Option(
    ("--output", "-o"),
    "Output format, by default a table.",
    metavar="wide|name|json|yaml",
    choices=[name for name in OUTPUTS if name],
)
NO_HEADERS = Option(("--no-headers",), "Don't print headers.", reads=None)
LISTING = (
    OUTPUT,
    NO_HEADERS,
    Option(("--api-group",), "Limit to resources in the specified API group."),
    Option(
        ("--namespaced",),
        "Limit to namespaced resources, or with =false to the others.",
        metavar="BOOLEAN",
        reads=boolean,
        bare=True,
    ),
    Option(
        ("--verbs",),
        "Limit to resources that support all of these verbs.",
        is_repeatable=True,
    ),
    Option(
        ("--categories",),
        "Limit to resources in all of these categories.",
        is_repeatable=True,
    ),
    Option(
        ("--sort-by",),
        "Sort by this column, by default by group and name.",
        metavar="name|kind",
        choices=[name for name in SORT_KEYS if name],
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


@dataclass(frozen=True, slots=True)
class Listing:
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


def listing_of(values: Values) -> Listing:
    """Return what the options of a command say of its listing."""
    flags = cast("_Flags", values.given)
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


def _api_resources(values: Values) -> None:
    snapshot = discover(source_of(values))
    listing_of(values).print(snapshot)
    refuse_nothing(snapshot)


API_RESOURCES = PlainCommand(
    "api-resources",
    "Print the supported API resources on the server.",
    (*LISTING, *SOURCE),
    _api_resources,
)
