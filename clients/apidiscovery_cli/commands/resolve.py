"""`apidiscovery resolve`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._terminal import printable
from apidiscovery_client.model import Current, Resource
from apidiscovery_client.resolving import Explanation, Resolution, Resolver

from apidiscovery_cli.commands.api_resources import NO_HEADERS, OUTPUT
from apidiscovery_cli.completing import complete_resources
from apidiscovery_cli.discovery import SOURCE, Source, discover, source_of
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.options import with_options
from apidiscovery_cli.output import (
    FAILED,
    has_colour,
    print_painted,
    print_text,
    tell,
    told_warnings,
)
from apidiscovery_cli.printing import print_resources


class _Flags(TypedDict):
    texts: tuple[str, ...]
    explains: bool
    strict: bool
    output: str | None
    no_headers: bool


@click.command("resolve", cls=Command)
@click.argument(
    "texts", metavar="TEXT...", nargs=-1, required=True, shell_complete=complete_resources
)
@click.option(
    "--explain",
    "explains",
    is_flag=True,
    help="Show which rules led to the result, instead of a table.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Fail if the result is not certain: several groups have the name, or one does not answer.",
)
@OUTPUT
@NO_HEADERS
@with_options(SOURCE, source_of)
def resolve(source: Source, **flags: Unpack[_Flags]) -> None:
    """Show which resource each TEXT means to kubectl.

    A TEXT is a plural, singular or short name, or a kind. Version and group may follow: deploy,
    deployments.apps, deployments.v1.apps, Deployment.apps or apps/v1/Deployment. It may end in a
    subresource, as pods/log.

    Exit code: 1 if one of them is not served.
    """
    if flags["explains"] and (flags["output"] or flags["strict"] or flags["no_headers"]):
        raise click.UsageError("--explain cannot be used with --output, --no-headers or --strict")
    resolver = Resolver(discover(source))
    if flags["explains"]:
        succeeded = _explain(resolver, flags["texts"])
    else:
        succeeded = _resolve(resolver, flags)
    if not succeeded:
        click.get_current_context().exit(FAILED)


def _resolve(resolver: Resolver, flags: _Flags) -> bool:
    found: list[Resource] = []
    errors: list[DiscoveryError] = []
    for text in flags["texts"]:
        try:
            resolution = resolver.resolve(text, strict=flags["strict"])
        except DiscoveryError as error:
            errors.append(error)
        else:
            found.append(_row(resolution))
            tell(*_warnings(resolution))
    if found or not errors:
        print_text(print_resources(found, flags["output"] or "", headers=not flags["no_headers"]))
    tell(*(f"error: {error}" for error in errors))
    return not errors


def _row(resolution: Resolution) -> Resource:
    """Return the row for a resource, or for a subresource as unaggregated discovery lists it."""
    resource, below = resolution.resource, resolution.subresource
    if below is None:
        return resource
    return replace(
        resource,
        name=f"{resource.name}/{below.name}",
        singular_name="",
        response_kind=below.response_kind,
        verbs=below.verbs,
        short_names=(),
        categories=(),
    )


def _warnings(resolution: Resolution) -> Iterator[str]:
    yield from (f"Warning: {warning}" for warning in resolution.warnings)
    freshness = resolution.freshness
    if not isinstance(freshness, Current) and freshness.reason not in told_warnings:
        since = freshness.since.isoformat(timespec="seconds")
        yield (
            f"Warning: {resolution.resource.gv} is not current since {since}: {freshness.reason}"
        )


def _explain(resolver: Resolver, texts: Sequence[str]) -> bool:
    explanations = [resolver.explain(text) for text in texts]
    print_painted("\n".join(_text(explanation) for explanation in explanations))
    return not any(isinstance(one.outcome, DiscoveryError) for one in explanations)


def _text(explanation: Explanation) -> str:
    lines = [printable(line) for line in explanation.lines()]
    if has_colour():
        lines = [_coloured(line) for line in lines]
    return "".join(f"{line}\n" for line in lines)


def _coloured(line: str) -> str:
    if line.startswith("Error:"):
        return click.style(line, fg="red")
    if line.startswith("Warning:"):
        return click.style(line, fg="yellow")
    if line.startswith("   "):
        return click.style(line, dim=True)
    return line if line[:1].isdecimal() else click.style(line, bold=True)
