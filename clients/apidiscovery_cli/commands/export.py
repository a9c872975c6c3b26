"""`apidiscovery export`: writes what a server serves in formats of other tools."""

from collections.abc import Callable, Mapping
from pathlib import Path

import click
from apidiscovery_client._connecting import Flags
from apidiscovery_client._server import Server
from apidiscovery_client._terminal import printable
from apidiscovery_client.model import Current, Snapshot

from apidiscovery_cli.connection_options import CONNECTION, flags_of, server_of
from apidiscovery_cli.exporting import (
    helm_api_versions,
    kind_schemas,
    kubeconform_schemas,
    schema_location,
)
from apidiscovery_cli.files import make_folder, write_file
from apidiscovery_cli.help_pages import Group
from apidiscovery_cli.openapi.documents import DocumentCache
from apidiscovery_cli.openapi_options import CACHE, cache_of, fetch, parsed
from apidiscovery_cli.options import with_options
from apidiscovery_cli.output import print_lines, tell, write
from apidiscovery_cli.printing import json_text
from apidiscovery_cli.sides import SIDE_HELP, SIDE_OPTIONS, connector, flags_for, open_side

_HELP = {"help_option_names": ["-h", "--help"]}
_FORMS: Mapping[str, Callable[[str], str]] = {
    "lines": lambda name: name,
    "flags": lambda name: f"--api-versions={name}",
}


@click.group(cls=Group, context_settings=_HELP, invoke_without_command=True)
@click.pass_context
def export(context: click.Context) -> None:
    """Write what a server serves in formats of other tools."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@export.command(
    "helm-api-versions",
    short_help="Print the API versions of a server for 'helm template'.",
    help="Print the API versions of FROM as they are in Helm's .Capabilities.APIVersions, so that"
    " 'helm template' needs no cluster.\n\n"
    f"FROM is {SIDE_HELP}. By default it is the current context of the kubeconfig.\n\n"
    "Exit code: 1 if some versions are not known.",
)
@click.argument("source", metavar="[FROM]", required=False)
@click.option(
    "--output",
    "-o",
    type=click.Choice(list(_FORMS)),
    default="lines",
    show_default=True,
    help="A line for each version, or the flags that helm takes.",
)
@with_options(SIDE_OPTIONS, flags_of)
def _helm_api_versions(flags: Flags, *, source: str | None, output: str) -> None:
    flags = flags_for(flags, [] if source is None else [source])
    connect = connector(flags)
    snapshot = connect(None, None) if source is None else open_side(source, connect)
    form = _FORMS[output]
    lines = (form(printable(name)) for name in helm_api_versions(snapshot))
    write("".join(f"{line}\n" for line in lines), _failures(snapshot))


def _failures(snapshot: Snapshot) -> dict[str, str]:
    troubled = {
        str(version.gv): version.freshness.reason
        for version in snapshot.troubled
        if not isinstance(version.freshness, Current)
    }
    return {**snapshot.failures, **troubled}


@export.command("kubeconform")
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--strict", is_flag=True, help="Write schemas that refuse unknown properties.")
@with_options(CONNECTION, server_of)
@with_options(CACHE, cache_of)
def _kubeconform(cache: DocumentCache | None, server: Server, *, folder: str, strict: bool) -> None:
    """Write the JSON Schemas of all kinds of a server to FOLDER, for kubeconform.

    It prints the value for kubeconform's -schema-location.
    """
    if not folder:  # as a Path it would be the current folder
        raise click.UsageError("the name of FOLDER is empty; it is . for the one that this runs in")
    schemas = kubeconform_schemas(kind_schemas(parsed(fetch(server, cache)), strict=strict))
    path = Path(folder)
    make_folder(path)
    for name, schema in schemas.files.items():
        write_file(path / name, json_text(schema).encode())
    for kind in schemas.unfit:
        tell(f"Warning: no file for {kind.name} of {kind.api_version}: no kind can be named so")
    for kind in schemas.hidden:
        tell(
            f"Warning: kubeconform will not find {kind.name} of {kind.api_version}:"
            " another group with the same first label has a kind of that name"
        )
    print_lines(schema_location(path))
