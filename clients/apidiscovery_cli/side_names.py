"""Completes sides without a request: contexts of the kubeconfig, releases, and files."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._terminal import printable
from apidiscovery_client.fleet._members import servers_of_contexts
from apidiscovery_client.snapshots.releases import PREFIX, known_releases

from apidiscovery_cli.sides import CLUSTER, CONTEXT

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_sides(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Return the sides that begin so, and what tells the shell to complete files."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

    del param
    found = (word for word in _words(ctx) if word.startswith(incomplete))
    items = [CompletionItem(word) for word in found if printable(word) == word]
    if not incomplete.startswith((CLUSTER, CONTEXT, PREFIX)):
        items.append(CompletionItem(incomplete, type="file"))
    return items


def _words(ctx: click.Context) -> Iterator[str]:
    yield from (f"{CONTEXT}{name}" for name in _contexts(ctx))
    yield from (f"{PREFIX}{name.removeprefix(PREFIX)}" for name in reversed(known_releases()))
    if ctx.params.get("service"):
        yield CLUSTER


def _contexts(ctx: click.Context) -> list[str]:
    with contextlib.suppress(DiscoveryError, OSError, ValueError):
        return list(servers_of_contexts(["*"], kubeconfig=ctx.params.get("kubeconfig")))
    return []  # a shell cannot show errors of completion
