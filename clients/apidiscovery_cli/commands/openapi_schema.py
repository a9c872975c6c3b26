"""`apidiscovery openapi schema`."""

import asyncio
from pathlib import Path
from typing import TypedDict, Unpack

import click
from apidiscovery_client._server import Server
from apidiscovery_client.model import GroupVersionResource
from apidiscovery_client.openapi.asking import key_of
from apidiscovery_client.openapi.json_documents import NotExplained, Object
from apidiscovery_client.openapi.json_schema import Kind, file_names, json_schema, kinds

from apidiscovery_cli.click_options import with_options
from apidiscovery_cli.connection_options import CONNECTION, server_of
from apidiscovery_cli.discovery import discover
from apidiscovery_cli.exit_codes import FAILED
from apidiscovery_cli.files import make_folder, write_file
from apidiscovery_cli.openapi.documents import DocumentCache, OpenApiClient
from apidiscovery_cli.openapi.explain import Explained, Question
from apidiscovery_cli.openapi.resource_names import (
    ResourceNames,
    UnknownResource,
    parse_group_version,
)
from apidiscovery_cli.openapi_cache_options import discovery_source, with_cache
from apidiscovery_cli.openapi_documents import fetch
from apidiscovery_cli.output import print_data, tell
from apidiscovery_cli.printing import json_text


class _Flags(TypedDict):
    kind: str | None
    every: bool
    folder: Path | None
    api_version: str
    strict: bool


@click.command("schema", short_help="Make JSON Schemas of kinds, for editors and kubeconform.")
@click.argument("kind", required=False)
@click.option("--all", "every", is_flag=True, help="Write the schemas of all kinds.")
@click.option(
    "--output-dir",
    "-o",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write files to, by default standard output.",
)
@click.option("--api-version", default="", help="Group and version, such as apps/v1.")
@click.option("--strict", is_flag=True, help="Refuse properties that are not in the schema.")
@with_options(CONNECTION, server_of)
@with_cache
def schema_command(cache: DocumentCache | None, server: Server, **flags: Unpack[_Flags]) -> None:
    """Make the JSON Schema (draft 7) of a KIND, or of all kinds, for editors and kubeconform.

    KIND is a resource, singular or plural, a kind or a short name; a group may follow it, as in
    deploy.apps. Files have the names that kubeconform looks for, such as deployment-apps-v1.json.
    """
    if bool(flags["kind"]) == flags["every"]:
        raise click.UsageError("want either a KIND or --all")
    if flags["every"] and not flags["folder"]:
        raise click.UsageError("--all wants a folder, -o DIR")
    try:
        schemas = _all(server, cache, flags) if flags["every"] else _one(server, cache, flags)
    except UnknownResource as error:
        tell(str(error))
        click.get_current_context().exit(FAILED)
    _write(schemas, flags["folder"])


def _all(server: Server, cache: DocumentCache | None, flags: _Flags) -> dict[Kind, Object]:
    names = [flags["api_version"]] if flags["api_version"] else []
    return {
        kind: json_schema(document, kind, strict=flags["strict"])
        for found in fetch(server, cache, names)
        for document in [found.parsed()]
        for kind in kinds(document)
        if found.location.key in _keys(kind)
    }


def _keys(kind: Kind) -> tuple[str, ...]:
    """Return the keys of the documents that tell of a kind first-hand."""
    if kind.group:
        return (f"apis/{kind.group}/{kind.version}",)
    return (f"api/{kind.version}",)


def _one(server: Server, cache: DocumentCache | None, flags: _Flags) -> dict[Kind, Object]:
    resource = _resource(ResourceNames(discover(discovery_source(server))), flags)

    async def run() -> Object:
        async with OpenApiClient(server, cache) as client:
            location = (await client.index()).get(key_of(resource))
            if location is None:
                raise NotExplained(f'couldn\'t find resource for "{resource}"')
            return (await client.document(location)).parsed()

    document = asyncio.run(run())
    named = Explained(document, Question(resource)).kind
    kind = Kind(*(str(named.get(key) or "") for key in ("group", "version", "kind")))
    return {kind: json_schema(document, kind, strict=flags["strict"])}


def _resource(names: ResourceNames, flags: _Flags) -> GroupVersionResource:
    word, api_version = flags["kind"] or "", flags["api_version"]
    resource = names.find_type(word)
    for warning in names.warnings:
        tell(f"Warning: {warning}")
    if api_version:
        gv = parse_group_version(api_version)
        return GroupVersionResource(gv.group, gv.version, resource.resource)
    return resource


def _write(schemas: dict[Kind, Object], folder: Path | None) -> None:
    if folder is None:
        for schema in schemas.values():
            print_data(json_text(schema))
        return
    make_folder(folder)
    for kind, name in file_names(schemas).items():
        write_file(folder / Path(name).name, json_text(schemas[kind]).encode())
