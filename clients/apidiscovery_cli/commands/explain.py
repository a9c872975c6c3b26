"""`apidiscovery explain`."""

from typing import TypedDict, Unpack

import click
from apidiscovery_client._kubectl import failures
from apidiscovery_client._server import Server
from apidiscovery_client.model import GroupVersionResource, Snapshot

from apidiscovery_cli.completing import complete_resources
from apidiscovery_cli.connection_options import CONNECTION, server_of
from apidiscovery_cli.discovery import discover
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.openapi.documents import DocumentCache
from apidiscovery_cli.openapi.explain import Explained, Question, levels
from apidiscovery_cli.openapi.resource_names import (
    ResourceNames,
    UnknownResource,
    parse_group_version,
)
from apidiscovery_cli.openapi_options import CACHE, cache_of, discovery_source, document_of
from apidiscovery_cli.options import with_options
from apidiscovery_cli.output import FAILED, IncompleteDiscovery, print_data, print_text, tell
from apidiscovery_cli.printing import json_text


class _Flags(TypedDict):
    type_and_fields: str
    recursive: bool
    max_depth: int
    depth: int
    descriptions: bool
    api_version: str
    output: str


@click.command("explain", cls=Command)
@click.argument("type_and_fields", metavar="TYPE[.FIELD...]", shell_complete=complete_resources)
@click.option("--recursive", "-R", is_flag=True, help="Also print the fields of fields.")
@click.option(
    "--max-depth",
    type=click.IntRange(0),
    default=0,
    help="How many levels --recursive prints; 0 for all.",
)
@click.option(
    "--depth",
    type=click.IntRange(0),
    default=0,
    help="How many levels of fields -o compact prints; 0 for all.",
)
@click.option(
    "--descriptions",
    is_flag=True,
    help="With -o compact, also print the first sentence of each description.",
)
@click.option("--api-version", default="", help="Group and version, such as apps/v1.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["plaintext", "json", "compact"]),
    default="plaintext",
    metavar="plaintext|json|compact",
    help="Output format, by default plaintext. compact has one short line for each field, at all"
    " levels; schemas that occur often are printed once.",
)
@with_options(CONNECTION, server_of)
@with_options(CACHE, cache_of)
def explain(cache: DocumentCache | None, server: Server, **flags: Unpack[_Flags]) -> None:
    """Describe a type of resources, or one of its fields, by the server's OpenAPI v3 documents.

    TYPE is a plural or singular name, a kind or a short name. The group may follow a plural name,
    as in deployments.apps.spec.

    Exit code: 1 if there is no such type or field.
    """
    if flags["max_depth"] and not flags["recursive"]:
        raise click.UsageError("--max-depth requires --recursive")
    is_compact = flags["output"] == "compact"
    if is_compact and flags["recursive"]:
        raise click.UsageError("-o compact has all levels: limit them by --depth, not --recursive")
    if not is_compact and (flags["depth"] or flags["descriptions"]):
        raise click.UsageError("--depth and --descriptions require -o compact")
    try:
        resource, path = _named(discover(discovery_source(server)), flags)
    except UnknownResource as error:
        tell(str(error))
        click.get_current_context().exit(FAILED)
    document = document_of(server, cache, resource)
    depth = levels(recursive=flags["recursive"], max_depth=flags["max_depth"])
    explained = Explained(document, Question(resource, path, depth))
    if flags["output"] == "json":
        print_data(json_text(explained.data()))
    elif is_compact:
        told = explained.compact(depth=flags["depth"], descriptions=flags["descriptions"])
        print_text(told)
    else:
        print_text(explained.header())  # also where the field does not exist, as in kubectl
        print_text(explained.text())


def _named(snapshot: Snapshot, flags: _Flags) -> tuple[GroupVersionResource, list[str]]:
    """Return the resource and fields of the argument, and warn where it is ambiguous."""
    names = ResourceNames(snapshot)
    argument, api_version = flags["type_and_fields"], flags["api_version"]
    try:
        resource, path = names.find_one(argument) if api_version else names.find(argument)
    except UnknownResource:
        _tell_incomplete(snapshot)
        raise
    finally:
        for warning in names.warnings:
            tell(f"Warning: {warning}")
    if api_version:
        gv = parse_group_version(api_version)
        resource = GroupVersionResource(gv.group, gv.version, resource.resource)
    return resource, path


def _tell_incomplete(snapshot: Snapshot) -> None:
    """Report group-versions that may have the resource, but could not be discovered."""
    if lacking := failures(snapshot):
        tell(f"error: {IncompleteDiscovery(lacking)}")
