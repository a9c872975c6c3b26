"""`apidiscovery api-resources`."""

import asyncio
from typing import TypedDict, Unpack

import click

from apidiscovery_client._http import Server, discover
from apidiscovery_client._listing import (
    OUTPUTS,
    SORT_KEYS,
    Selection,
    print_resources,
    select,
)
from apidiscovery_client.cli._connection import with_server
from apidiscovery_client.cli._output import write


class _Flags(TypedDict):
    output: str | None
    no_headers: bool
    api_group: str | None
    namespaced: bool | None
    verbs: tuple[str, ...]
    categories: tuple[str, ...]
    sort_by: str | None


@click.command("api-resources")
@click.option(
    "--output",
    "-o",
    type=click.Choice([name for name in OUTPUTS if name]),
    metavar="wide|name|json|yaml",
    help="Output format, by default a table.",
)
@click.option("--no-headers", is_flag=True, help="Don't print headers.")
@click.option("--api-group", help="Limit to resources in the specified API group.")
@click.option(
    "--namespaced",
    type=bool,
    is_flag=False,
    flag_value=True,
    help="Limit to namespaced resources, or with =false to the others.",
)
@click.option("--verbs", multiple=True, help="Limit to resources that support all of these verbs.")
@click.option("--categories", multiple=True, help="Limit to resources in all of these categories.")
@click.option(
    "--sort-by", type=click.Choice([name for name in SORT_KEYS if name]), metavar="name|kind",
    help="Sort by this column, by default by group and name.",
)  # fmt: skip
@with_server
def api_resources(server: Server, **flags: Unpack[_Flags]) -> None:
    """Print the supported API resources on the server."""
    selection = Selection(
        api_group=flags["api_group"],
        namespaced=flags["namespaced"],
        verbs=_words(flags["verbs"]),
        categories=_words(flags["categories"]),
    )
    discovery = asyncio.run(discover(server))
    resources = select(discovery, selection, flags["sort_by"] or "")
    text = print_resources(resources, flags["output"] or "", headers=not flags["no_headers"])
    write(text, discovery)


def _words(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a flag that takes several, comma-separated, and may be repeated."""
    return tuple(word for value in values if value for word in value.split(","))
