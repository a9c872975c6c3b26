"""`apidiscovery openapi get`, `bundle`, `validate` and `schema`."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._http.reply import MAX_BODY_BYTES
from apidiscovery_client._server import Server
from apidiscovery_client.model import GroupVersionResource
from apidiscovery_client.openapi.asking import INDEX_PATH, FetchedDocument, Location
from apidiscovery_client.openapi.json_documents import Object
from apidiscovery_client.openapi.json_schema import Kind, file_names, json_schema

from apidiscovery_cli.connection_options import CONNECTION, server_of
from apidiscovery_cli.discovery import discover
from apidiscovery_cli.exporting import kind_schemas
from apidiscovery_cli.files import input_name, make_folder, read_input, write_file
from apidiscovery_cli.help_pages import Group
from apidiscovery_cli.openapi import bundle as bundling
from apidiscovery_cli.openapi.documents import DocumentCache, OpenApiClient
from apidiscovery_cli.openapi.explain import Explained, Question
from apidiscovery_cli.openapi.resource_names import (
    ResourceNames,
    UnknownResource,
    parse_group_version,
)
from apidiscovery_cli.openapi.validation import MAX_PROBLEMS, file_problems, problems
from apidiscovery_cli.openapi_options import (
    CACHE,
    WRITERS,
    cache_of,
    chosen,
    compact_json,
    discovery_source,
    document_of,
    fetch,
    parsed,
)
from apidiscovery_cli.options import with_options
from apidiscovery_cli.output import (
    FAILED,
    print_bytes,
    print_data,
    print_lines,
    print_text,
    tell,
    tell_warning,
)
from apidiscovery_cli.printing import json_text, table, yaml_text


@click.group("openapi", cls=Group, invoke_without_command=True)
@click.pass_context
def openapi(context: click.Context) -> None:
    """Print, merge, validate and convert the OpenAPI v3 documents of a server."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@openapi.command("get", short_help="Print documents, or their index.")
@click.argument("names", nargs=-1, metavar="[GROUP/VERSION...]")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["json", "yaml", "protobuf"]),
    metavar="json|yaml|protobuf",
    help="Output format, by default json, and for the index a table.",
)
@with_options(CONNECTION, server_of)
@with_options(CACHE, cache_of)
def get(
    cache: DocumentCache | None, server: Server, *, names: tuple[str, ...], output: str | None
) -> None:
    """Print the documents of group-versions such as v1 or apps/v1; without any, print the index.

    One document in json or protobuf is printed as the server sent it, byte for byte. Several
    documents in json are one line each.
    """
    if output == "protobuf":
        if len(names) != 1:
            raise click.UsageError("-o protobuf wants one group-version")
        print_bytes(asyncio.run(_protobuf(server, names[0])).data)
    elif not names:
        _print_index(asyncio.run(_index(server)), output)
    else:
        _print_documents(fetch(server, cache, names), output)


async def _index(server: Server) -> list[Location]:
    async with OpenApiClient(server, warn=tell_warning) as client:
        return list((await client.index()).values())


async def _protobuf(server: Server, name: str) -> FetchedDocument:
    async with OpenApiClient(server, warn=tell_warning) as client:
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
        documents[0].parsed()  # raises where it is not a document
        print_bytes(documents[0].data)
    else:
        print_data("".join(compact_json(document.parsed()) for document in documents))


class _BundleFlags(TypedDict):
    names: tuple[str, ...]
    output_format: str
    output_file: Path | None
    on_conflict: str


def _refuse_format(
    _context: click.Context, _parameter: click.Parameter, path: Path | None
) -> Path | None:
    """Refuse what `-o` would take: with other commands --output is the format."""
    if path and str(path) in WRITERS:
        raise click.BadParameter(f"a format is chosen with -o {path}; a file may be ./{path}")
    return path


@openapi.command("bundle", short_help="Merge documents into one OpenAPI v3 file.")
@click.argument("names", nargs=-1, metavar="[GROUP/VERSION...]")
@click.option(
    "-o",
    "output_format",
    type=click.Choice(list(WRITERS)),
    default="json",
    metavar="json|yaml",
    help="Output format, by default json.",
)
@click.option(
    "--output",
    "output_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=_refuse_format,
    help="File to write instead of standard output.",
)
@click.option(
    "--on-conflict",
    type=click.Choice(["rename", "error"]),
    default="rename",
    show_default=True,
    metavar="rename|error",
    help="What to do when two documents differ under one name: rename one, or write nothing.",
)
@with_options(CONNECTION, server_of)
@with_options(CACHE, cache_of)
def bundle(cache: DocumentCache | None, server: Server, **flags: Unpack[_BundleFlags]) -> None:
    """Merge the documents of group-versions, by default all, into one OpenAPI v3 file.

    Names under which documents differ are reported on standard error. With --on-conflict=error the
    exit code is 1 then.
    """
    documents = fetch(server, cache, flags["names"])
    merged = bundling.bundle(bundling.Part(*keyed) for keyed in parsed(documents))
    is_refused = flags["on_conflict"] == "error"
    for conflict in merged.conflicts:
        tell(f"error: {conflict.problem}" if is_refused else f"Warning: {conflict}")
    if merged.conflicts and is_refused:
        click.get_current_context().exit(FAILED)
    text = WRITERS[flags["output_format"]](merged.document)
    if path := flags["output_file"]:
        write_file(path, text.encode("utf-8", errors="replace"))
    else:
        print_data(text)


_NOT_CHECKED = 2


@openapi.command("validate", short_help="Check whether documents are valid OpenAPI 3.0.")
@click.argument(
    "files",
    nargs=-1,
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True),
    metavar="[FILE...]",
)
@with_options(CONNECTION, server_of)
@with_options(CACHE, cache_of)
def validate(cache: DocumentCache | None, server: Server, *, files: tuple[str, ...]) -> None:
    """Check whether files are valid OpenAPI 3.0; without any, check the documents of a server.

    Files are JSON or YAML; - is standard input.

    Exit code: 0 if all are valid; 1 if one is not; 2 if one cannot be read.
    """
    try:
        documents = list(_read(files) if files else _served(server, cache))
    except (DiscoveryError, OSError) as error:
        tell(f"error: {error}")
        click.get_current_context().exit(_NOT_CHECKED)
    sound = [_tell_problems(document) for document in documents]
    if not all(sound):
        click.get_current_context().exit(FAILED)


@dataclass(frozen=True, slots=True)
class _Input:
    name: str
    data: bytes
    may_be_yaml: bool


def _served(server: Server, cache: DocumentCache | None) -> Iterator[_Input]:
    for document in fetch(server, cache):
        yield _Input(f"{INDEX_PATH}/{document.location.key}", document.data, may_be_yaml=False)


def _read(files: tuple[str, ...]) -> Iterator[_Input]:
    for name in files:
        # As large as what servers serve may be.
        yield _Input(input_name(name), read_input(name, MAX_BODY_BYTES), may_be_yaml=True)


def _tell_problems(document: _Input) -> bool:
    """Print what is wrong with a document; return whether nothing is."""
    name, check = document.name, file_problems if document.may_be_yaml else problems
    found = [str(problem) for problem in check(document.data)]
    print_lines(*(f"{name}: {problem}" for problem in found))
    if len(found) >= MAX_PROBLEMS:
        print_lines(f"{name}: only the first {MAX_PROBLEMS} are listed")
    if not found:
        print_lines(f"{name} is sound")
    return not found


class _SchemaFlags(TypedDict):
    kind: str | None
    every: bool
    folder: Path | None
    api_version: str
    strict: bool


@openapi.command("schema", short_help="Make JSON Schemas of kinds, for editors and kubeconform.")
@click.argument("kind", required=False)
@click.option("--all", "every", is_flag=True, help="Write the schemas of all kinds.")
@click.option(
    "--output-dir",
    "-o",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write files to instead of standard output.",
)
@click.option("--api-version", default="", help="Group and version, such as apps/v1.")
@click.option("--strict", is_flag=True, help="Write schemas that refuse unknown properties.")
@with_options(CONNECTION, server_of)
@with_options(CACHE, cache_of)
def schema(cache: DocumentCache | None, server: Server, **flags: Unpack[_SchemaFlags]) -> None:
    """Make the JSON Schema (draft 7) of a KIND, or of all kinds, for editors and kubeconform.

    KIND is a plural or singular name, a kind or a short name. A group may follow it, as in
    deploy.apps. Files have the names that kubeconform looks for, such as deployment-apps-v1.json.
    """
    if bool(flags["kind"]) == flags["every"]:
        raise click.UsageError("want either a KIND or --all")
    if flags["every"] and not flags["folder"]:
        raise click.UsageError("--all wants a folder, -o DIR")
    try:
        if flags["every"]:
            names = [flags["api_version"]] if flags["api_version"] else []
            schemas = kind_schemas(parsed(fetch(server, cache, names)), strict=flags["strict"])
        else:
            schemas = _schema_of_one(server, cache, flags)
    except UnknownResource as error:
        tell(str(error))
        click.get_current_context().exit(FAILED)
    _write_schemas(schemas, flags["folder"])


def _schema_of_one(
    server: Server, cache: DocumentCache | None, flags: _SchemaFlags
) -> dict[Kind, Object]:
    resource = _resource(ResourceNames(discover(discovery_source(server))), flags)
    document = document_of(server, cache, resource)
    named = Explained(document, Question(resource)).kind
    kind = Kind(*(str(named.get(key) or "") for key in ("group", "version", "kind")))
    return {kind: json_schema(document, kind, strict=flags["strict"])}


def _resource(names: ResourceNames, flags: _SchemaFlags) -> GroupVersionResource:
    word, api_version = flags["kind"] or "", flags["api_version"]
    resource = names.find_type(word)
    for warning in names.warnings:
        tell(f"Warning: {warning}")
    if api_version:
        gv = parse_group_version(api_version)
        return GroupVersionResource(gv.group, gv.version, resource.resource)
    return resource


def _write_schemas(schemas: dict[Kind, Object], folder: Path | None) -> None:
    if folder is None:
        for schema in schemas.values():
            print_data(json_text(schema))
        return
    make_folder(folder)
    for kind, name in file_names(schemas).items():
        write_file(folder / Path(name).name, json_text(schemas[kind]).encode())
