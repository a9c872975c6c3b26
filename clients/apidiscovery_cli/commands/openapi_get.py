"""`apidiscovery openapi get`."""

import asyncio
from typing import TypedDict, Unpack

import click
from apidiscovery_client._server import Server
from apidiscovery_client.openapi.asking import FetchedDocument, Location

from apidiscovery_cli.click_options import with_options
from apidiscovery_cli.connection_options import CONNECTION, server_of
from apidiscovery_cli.openapi.documents import DocumentCache, OpenApiClient
from apidiscovery_cli.openapi_cache_options import with_cache
from apidiscovery_cli.openapi_documents import chosen, compact_json, fetch
from apidiscovery_cli.output import print_bytes, print_data, print_text
from apidiscovery_cli.printing import json_text, table, yaml_text


class _Flags(TypedDict):
    names: tuple[str, ...]
    output: str | None


@click.command("get", short_help="Print documents, or the index of them.")
@click.argument("names", nargs=-1, metavar="[GROUP/VERSION...]")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["json", "yaml", "protobuf"]),
    metavar="json|yaml|protobuf",
    help="Output format, by default json; of the index a table.",
)
@with_options(CONNECTION, server_of)
@with_cache
def get_command(cache: DocumentCache | None, server: Server, **flags: Unpack[_Flags]) -> None:
    """Print the documents of group-versions such as v1 or apps/v1, or without any the index.

    One document as json or protobuf is printed as the server sent it, to the byte; several as
    json are one line each.
    """
    names, output = flags["names"], flags["output"]
    if output == "protobuf":
        if len(names) != 1:
            raise click.UsageError("-o protobuf wants one group-version")
        print_bytes(asyncio.run(_protobuf(server, names[0])).data)
    elif not names:
        _print_index(asyncio.run(_index(server)), output)
    else:
        _print_documents(fetch(server, cache, names), output)


async def _index(server: Server) -> list[Location]:
    async with OpenApiClient(server) as client:
        return list((await client.index()).values())


async def _protobuf(server: Server, name: str) -> FetchedDocument:
    async with OpenApiClient(server) as client:
        (location,) = chosen(await client.index(), [name])
        return await client.protobuf(location)


def _print_index(locations: list[Location], output: str | None) -> None:
    if output is None:
        print_text(table([("PATH", "HASH"), *((found.key, found.hash) for found in locations)]))
        return
    document = {"paths": {found.key: {"serverRelativeURL": found.url} for found in locations}}
    print_data(json_text(document) if output == "json" else yaml_text(document))


def _print_documents(documents: list[FetchedDocument], output: str | None) -> None:
    if output == "yaml":
        print_data("---\n".join(yaml_text(document.parsed()) for document in documents))
    elif len(documents) == 1:
        documents[0].parsed()  # what is no document must not pass for one
        print_bytes(documents[0].data)
    else:
        print_data("".join(compact_json(document.parsed()) for document in documents))
