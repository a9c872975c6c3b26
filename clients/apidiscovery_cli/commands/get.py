"""`apidiscovery get`."""

import contextlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypedDict, Unpack

import click
from apidiscovery.service.v1 import discovery_pb2, registry_pb2
from apidiscovery_client import DiscoveryError
from apidiscovery_client._terminal import printable

from apidiscovery_cli.grpc_connection import RegistryClient, named_server, with_registry
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.output import print_data, print_lines, print_text, tell
from apidiscovery_cli.registration_objects import (
    KINDS,
    WRITERS,
    Kind,
    document,
    named,
    object_of,
    of_word,
    registrations_table,
    short_name,
    sources_document,
    sources_table,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SOURCES = frozenset({"sources", "source"})


# A shell waits that long for names.
_COMPLETION_S = 2.0


def _complete_words(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Return types, or names of a type that the server has; none where it does not answer."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

    del param
    words: tuple[str, ...] = ctx.params.get("words") or ()
    found = [kind.plural for kind in KINDS] + ["sources"]
    if words:
        found = []
        with contextlib.suppress(DiscoveryError, click.UsageError, OSError, ValueError):
            found = _names_at(ctx, words[0])
    return [
        CompletionItem(name)
        for name in found
        if name.startswith(incomplete) and printable(name) == name
    ]


def _names_at(ctx: click.Context, word: str) -> list[str]:
    values = {**ctx.params, "request_timeout_s": _COMPLETION_S}
    with ctx.scope(cleanup=False), RegistryClient(named_server(values)) as client:
        if word in _SOURCES:
            return [source.name for source in client.sources()]
        return [found.name for found in client.registrations(of_word(word).number)]


class _Flags(TypedDict):
    words: tuple[str, ...]
    output: str
    no_headers: bool


@click.command("get", cls=Command)
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="TYPE [NAME...]|TYPE/NAME...",
    shell_complete=_complete_words,
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "wide", *WRITERS, "name"]),
    default="table",
    metavar="table|wide|json|yaml|name",
    help="Output format, by default a table.",
)
@click.option("--no-headers", is_flag=True, help="Don't print headers.")
@with_registry
def get(client: RegistryClient, **flags: Unpack[_Flags]) -> bool:
    """Show registrations, or the sources of what a server serves.

    TYPE is crds, apiservices or groups for registrations, or sources.
    """
    words = flags["words"]
    if words[0].partition("/")[0].lower() in _SOURCES:
        return _get_sources(client, _names_of_sources(words), flags)
    targets = named(words)
    kind = targets[0][0]
    if any(other is not kind for other, _ in targets):
        raise click.UsageError("want one type at a time")
    names = [name for _, name in targets if name]
    by_name = {found.name: found for found in client.registrations(kind.number, names)}
    found = [by_name[name] for name in names or by_name if name in by_name]
    _print(kind, found, flags, is_one=len(names) == 1)
    return _tell_missing(kind.plural, names, by_name)


def _names_of_sources(words: Sequence[str]) -> list[str]:
    if "/" in words[0]:
        return [word.partition("/")[2] for word in words]
    return list(words[1:])


def _print(
    kind: Kind, found: Sequence[registry_pb2.Registration], flags: _Flags, *, is_one: bool
) -> None:
    output = flags["output"]
    if output == "name":
        print_lines(*map(short_name, found))
    elif write := WRITERS.get(output):
        objects = [object_of(registration) for registration in found]
        if objects or not is_one:
            print_data(write(document(objects, always_list=not is_one)))
    else:
        now, wide = datetime.now(UTC), output == "wide"
        headers = not flags["no_headers"]
        print_text(registrations_table(kind, found, now, wide=wide, headers=headers))
        if not (found or is_one):
            tell("No resources found")


def _tell_missing(plural: str, names: Iterable[str], existing: Iterable[str]) -> bool:
    """Report names that do not exist; return whether all exist."""
    missing = [name for name in dict.fromkeys(names) if name not in set(existing)]
    tell(*(f'Error from server (NotFound): {plural} "{name}" not found' for name in missing))
    return not missing


def _get_sources(client: RegistryClient, names: Sequence[str], flags: _Flags) -> bool:
    by_name = {source.name: source for source in client.sources()}
    found = [by_name[name] for name in dict.fromkeys(names or by_name) if name in by_name]
    _print_sources(found, flags)
    return _tell_missing("sources", names, by_name)


def _print_sources(found: Sequence[discovery_pb2.DiscoverySource], flags: _Flags) -> None:
    output = flags["output"]
    if output == "name":
        print_lines(*(f"sources/{source.name}" for source in found))
    elif write := WRITERS.get(output):
        print_data(write(sources_document(found)))
    else:
        wide, headers = output == "wide", not flags["no_headers"]
        print_text(sources_table(found, wide=wide, headers=headers))
