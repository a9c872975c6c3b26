"""`apidiscovery withdraw`."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

import click
from apidiscovery.service.v1 import registry_pb2
from apidiscovery_client._grpc.calls import CallRefused

from apidiscovery_cli.files import UnusableFile
from apidiscovery_cli.grpc_connection import (
    RegistryClient,
    piecewise,
    refusal_lines,
    with_registry,
)
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.manifest_files import Named, objects, readable
from apidiscovery_cli.output import print_lines, tell, tell_error
from apidiscovery_cli.registration_objects import named, of_number

_REQUEST_NAMES = 200


class _Flags(TypedDict):
    words: tuple[str, ...]
    files: tuple[str, ...]
    recursive: bool
    name: str | None
    owner: str
    ignore_not_found: bool
    expect_revision: int | None
    output: str | None


@click.command("withdraw", cls=Command)
@click.argument("words", nargs=-1, metavar="[TYPE NAME...|TYPE/NAME...]")
@click.option(
    "--filename",
    "-f",
    "files",
    multiple=True,
    metavar="FILE|DIR|-",
    help="Remove what these manifests define; arguments are then further manifests.",
)
@click.option("--recursive", "-R", is_flag=True, help="Also read the folders in a folder.")
@click.option("--name", help="Name of a discovery list, by default that of its file.")
@click.option("--owner", default="", help="Remove this owner and all its registrations.")
@click.option(
    "--ignore-not-found", is_flag=True, help="Succeed also if a registration does not exist."
)
@click.option(
    "--expect-revision",
    type=click.IntRange(min=1),
    help="Fail unless the object has this revision. For one object only.",
)
@click.option(
    "--output", "-o", type=click.Choice(["name"]), metavar="name", help="Print names only."
)
@with_registry
def withdraw(client: RegistryClient, **flags: Unpack[_Flags]) -> bool:
    """Remove registrations by name, by file or by owner.

    TYPE is crds, apiservices or groups.
    """
    _check(flags)
    withdrawing = _Withdrawing(client, flags)
    if flags["owner"]:
        return withdrawing.all_of_owner()
    if flags["files"]:
        targets = withdrawing.in_files([*flags["files"], *flags["words"]])
    else:
        targets = [Named(kind, name) for kind, name in named(flags["words"])]
        if not all(target.name for target in targets):
            raise click.UsageError("want the names of what to withdraw after its type")
    if flags["expect_revision"] is not None and len(targets) != 1:
        raise click.UsageError(f"--expect-revision takes one object, but there are {len(targets)}")
    for start in range(0, len(targets), _REQUEST_NAMES):
        withdrawing.send(targets[start : start + _REQUEST_NAMES])
    return not withdrawing.failed


def _check(flags: _Flags) -> None:
    ways = [bool(flags["files"] or flags["words"]), bool(flags["owner"])]
    if sum(ways) != 1:
        raise click.UsageError("want either TYPE NAME..., TYPE/NAME..., -f FILE or --owner NAME")
    if flags["owner"] and flags["expect_revision"] is not None:
        raise click.UsageError("--expect-revision takes one object, not those of an owner")
    if not flags["files"] and (flags["name"] is not None or flags["recursive"]):
        raise click.UsageError("--name and --recursive need --filename")


class _Withdrawing:
    """One run of the command.

    Attributes:
        failed: Whether something was not withdrawn.
    """

    def __init__(self, client: RegistryClient, flags: _Flags) -> None:
        self._client = client
        self._flags = flags
        self.failed = False

    def in_files(self, given: Sequence[str]) -> list[Named]:
        """Return the objects in files, without duplicates; report files that cannot be parsed."""
        found: list[Named] = []
        flags = self._flags
        for file in readable(given, recursive=flags["recursive"], name=flags["name"]):
            try:
                if isinstance(file, UnusableFile):
                    raise file
                found += objects(file)
            except UnusableFile as error:
                self.failed = True
                tell_error(error)
        if not (found or self.failed):
            tell("error: no objects passed to withdraw")
            self.failed = True
        return list(dict.fromkeys(found))

    def all_of_owner(self) -> bool:
        """Withdraw the registrations of an owner; return whether there were any."""
        owner = self._flags["owner"]
        outcome = self._client.withdraw(registry_pb2.WithdrawRequest(owner=owner))
        for reference in outcome.references:
            self._print(Named(of_number(reference.kind), reference.name))
        if outcome.references or outcome.repeated or self._flags["ignore_not_found"]:
            return True
        tell(f'Error from server (NotFound): owners "{owner}" not found')
        return False

    def send(self, targets: Sequence[Named]) -> None:
        """Withdraw registrations, and report the result of each."""
        piecewise(targets, self._request, self._refused)

    def _request(self, targets: Sequence[Named]) -> None:
        references = [
            registry_pb2.RegistrationReference(
                kind=target.kind.number,
                name=target.name,
                expected_revision=self._flags["expect_revision"],
            )
            for target in targets
        ]
        outcome = self._client.withdraw(registry_pb2.WithdrawRequest(registrations=references))
        there = {(reference.kind, reference.name) for reference in outcome.references}
        for target in targets:
            # An earlier attempt without an answer may have withdrawn it.
            if (target.kind.number, target.name) in there or outcome.repeated:
                self._print(target)
            elif not self._flags["ignore_not_found"]:
                self.failed = True
                what = f'{target.kind.plural} "{target.name}"'
                tell(f"Error from server (NotFound): {what} not found")

    def _refused(self, _target: Named, error: CallRefused) -> None:
        self.failed = True
        tell(*refusal_lines(error))

    def _print(self, target: Named) -> None:
        """Print a line as kubectl delete does (kubectl pkg/cmd/delete/delete.go `PrintObj`)."""
        prefix, name = target.kind.prefix, target.name
        is_name = self._flags["output"] == "name"
        print_lines(f"{prefix}/{name}" if is_name else f'{prefix} "{name}" deleted')
