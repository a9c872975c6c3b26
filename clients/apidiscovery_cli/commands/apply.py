"""`apidiscovery apply`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypedDict, Unpack, cast

import click
from apidiscovery.service.v1 import registry_pb2
from apidiscovery_client._grpc.calls import CallRefused
from google.protobuf.duration_pb2 import Duration

from apidiscovery_cli.files import UnusableFile
from apidiscovery_cli.grpc_connection import (
    RegistryClient,
    piecewise,
    refusal_lines,
    with_registry,
)
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.manifest_files import File, objects, paths, read, readable
from apidiscovery_cli.options import DURATION
from apidiscovery_cli.output import print_data, print_lines, tell, tell_error
from apidiscovery_cli.registration_objects import WRITERS, Object, document, object_of, short_name

# Far below gRPC's default limit of 4 MB, and small enough that a wrong file makes us resend few
# others. A larger file is a request of its own.
_REQUEST_BYTES = 1 << 20
_REQUEST_FILES = 200

_OUTCOMES = {
    registry_pb2.AppliedDocument.OUTCOME_CREATED: "created",
    registry_pb2.AppliedDocument.OUTCOME_CONFIGURED: "configured",
    registry_pb2.AppliedDocument.OUTCOME_UNCHANGED: "unchanged",
}


class _Flags(TypedDict):
    files: tuple[str, ...]
    more_files: tuple[str, ...]
    recursive: bool
    dry_run: bool
    owner: str
    lease: float | None
    removal_after: float | None
    name: str | None
    expect_revision: int | None
    output: str | None


@click.command("apply", cls=Command)
@click.option(
    "--filename",
    "-f",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    help="Manifests to apply, YAML or JSON; - is stdin. Repeatable.",
)
@click.argument("more_files", nargs=-1, metavar="[FILE|DIR]...")
@click.option("--recursive", "-R", is_flag=True, help="Also read the folders in a folder.")
@click.option("--dry-run", is_flag=True, help="Validate without saving.")
@click.option("--owner", default="", help="Name of the owner of these registrations.")
@click.option(
    "--lease",
    type=DURATION,
    help="How long the owner may be silent until its registrations are Stale, such as 30s.",
)
@click.option(
    "--removal-after",
    type=DURATION,
    help="How long after that they are removed, by default ten times --lease.",
)
@click.option(
    "--name", help="Name for a discovery list without a name, by default that of its file."
)
@click.option(
    "--expect-revision",
    type=click.IntRange(min=0),
    help="Fail unless the object has this revision; 0 if it must not exist. For one object only.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["name", *WRITERS]),
    metavar="name|json|yaml",
    help="Output format, by default a line for each object that says what was done.",
)
@with_registry
def apply(client: RegistryClient, **flags: Unpack[_Flags]) -> bool:
    """Register the CustomResourceDefinitions, APIServices and discovery lists in manifests."""
    _check(flags)
    applying = _Applying(client, flags)
    given = [*flags["files"], *flags["more_files"]]
    if flags["name"] is not None or flags["expect_revision"] is not None:
        files: Iterable[File] = [_the_file(given, flags)]
    else:
        files = applying.readable(given)
    try:
        for batch in _batches(files):
            applying.send(batch)
    finally:
        applying.print_objects()
    if not (applying.count or applying.failures):
        tell("error: no objects passed to apply")
    return bool(applying.count) and not applying.failures


def _check(flags: _Flags) -> None:
    if flags["lease"] is not None and not flags["owner"]:
        raise click.UsageError("--lease needs --owner")
    if flags["removal_after"] is not None and flags["lease"] is None:
        raise click.UsageError("--removal-after needs --lease")


def _the_file(given: Sequence[str], flags: _Flags) -> File:
    """Return the only file; raise `UnusableFile`, or `click.UsageError` where there are more."""
    option = "--name" if flags["name"] is not None else "--expect-revision"
    found = list(paths(given, recursive=flags["recursive"]))
    if len(found) != 1:
        raise click.UsageError(f"{option} takes one file, but there are {len(found)}")
    path = found[0]
    if isinstance(path, UnusableFile):
        raise path
    return read(path, flags["name"])


def _batches(files: Iterable[File]) -> Iterator[list[File]]:
    """Yield the files in batches of at most `_REQUEST_BYTES`, larger files alone."""
    batch: list[File] = []
    size = 0
    for file in files:
        size += len(file.content)
        if batch and (size > _REQUEST_BYTES or len(batch) == _REQUEST_FILES):
            yield batch
            batch, size = [], len(file.content)
        batch.append(file)
    if batch:
        yield batch


class _Applying:
    """One run of the command.

    Attributes:
        count: The number of applied documents.
        failures: The number of files that were refused or not readable.
    """

    def __init__(self, client: RegistryClient, flags: _Flags) -> None:
        self._client = client
        self._flags = flags
        self._objects: list[Object] = []
        self._told: set[str] = set()
        self.count = 0
        self.failures = 0

    def readable(self, given: Iterable[str]) -> Iterator[File]:
        """Yield the readable files, and report the others."""
        for file in readable(given, recursive=self._flags["recursive"]):
            if isinstance(file, UnusableFile):
                self.failures += 1
                tell_error(file)
            else:
                yield file

    def send(self, files: Sequence[File]) -> None:
        """Apply files, and report the result of each."""
        piecewise(files, self._request, self._refused)

    def _request(self, files: Sequence[File]) -> None:
        flags = self._flags
        manifests = [
            registry_pb2.ApplyRequest.Manifest(
                content=f.content, file=f.path, list_name=f.list_name
            )
            for f in files
        ]
        request = registry_pb2.ApplyRequest(
            manifests=manifests,
            owner=flags["owner"],
            lease=_lease(flags["lease"], flags["removal_after"]),
            expected=self._expected(files),
            dry_run=flags["dry_run"],
        )
        for applied in self._client.apply(request):
            self._print(applied)

    def _expected(self, files: Sequence[File]) -> list[registry_pb2.RegistrationReference]:
        revision = self._flags["expect_revision"]
        if revision is None:
            return []
        found = objects(files[0])
        if len(found) != 1:
            raise click.UsageError(
                f"--expect-revision takes one object, but {files[0].path} has {len(found)}"
            )
        named = found[0]
        reference = registry_pb2.RegistrationReference(
            kind=named.kind.number, name=named.name, expected_revision=revision
        )
        return [reference]

    def _refused(self, file: File, error: CallRefused) -> None:
        self.failures += 1
        lines = refusal_lines(error, file.path)
        tell(*(line for line in lines if line not in self._told))
        self._told.update(lines)

    def _print(self, applied: registry_pb2.AppliedDocument) -> None:
        self.count += 1
        _warn_of_name_conflict(applied.registration)
        output = self._flags["output"]
        if output in WRITERS:
            self._objects.append(object_of(applied.registration))
            return
        line = short_name(applied.registration)
        if output is None:
            line += f" {_OUTCOMES.get(applied.outcome, 'applied')}"
            line += " (server dry run)" if self._flags["dry_run"] else ""
        print_lines(line)

    def print_objects(self) -> None:
        """Print the applied objects, where the output format is one of objects."""
        if self._objects:
            write = WRITERS[self._flags["output"] or ""]
            print_data(write(document(self._objects, always_list=False)))


def _warn_of_name_conflict(registration: registry_pb2.Registration) -> None:
    """Warn of a CustomResourceDefinition whose names another one has."""
    if registration.kind != registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION:
        return
    status = cast("dict[str, Any]", object_of(registration).get("status") or {})
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    names = conditions.get("NamesAccepted", {})
    if names.get("status") == "False":
        established = conditions.get("Established", {}).get("status") == "True"
        where = "under the names that it had" if established else "nowhere"
        said = f"{names.get('reason')}: {names.get('message')}"
        tell(f"warning: {short_name(registration)} is served {where}: {said}")


def _lease(
    duration_s: float | None, removal_after_s: float | None
) -> registry_pb2.OwnerLease | None:
    if duration_s is None:
        return None
    lease = registry_pb2.OwnerLease(duration=_duration(duration_s))
    if removal_after_s is not None:
        lease.removal_after.CopyFrom(_duration(removal_after_s))
    return lease


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration
