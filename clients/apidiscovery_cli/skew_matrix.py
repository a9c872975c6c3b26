"""Storage versions as a matrix of resources and servers, and as JSON in Kubernetes' form.

Source of what the JSON omits: k8s.io/apimachinery pkg/apis/meta/v1/types.go and time.go, k8s.io/api
coordination/v1/types.go and apiserverinternal/v1alpha1/types.go.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

import click
from apidiscovery.coordination.v1 import lease_pb2
from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.service.v1 import storage_version_pb2
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2
from apidiscovery_client._terminal import printable
from apidiscovery_client.storage_versions.agreement import AGREED
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from apidiscovery_cli.printing import table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Kubernetes writes it although it is null.
_NULLABLE = "lastTransitionTime"

_HOSTNAME = "kubernetes.io/hostname"
_NOTHING = "-"
_GONE = " (gone)"
_VERDICTS = {
    storage_version_pb2.HASH_VERDICT_SAME: "same",
    storage_version_pb2.HASH_VERDICT_DIFFERENT: "DIFFERENT",
    storage_version_pb2.HASH_VERDICT_UNKNOWN: "unknown",
}

_GOOD, _BAD, _FAINT = "green", "red", "bright_black"


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Skew:
    """Storage versions of resources by server.

    Attributes:
        objects: The StorageVersions to show, by name.
        members: Leases of the current API servers, by name.
        comparisons: Hashes in discovery compared with reports, by name of the StorageVersion.
    """

    objects: tuple[storageversion_pb2.StorageVersion, ...]
    members: tuple[lease_pb2.Lease, ...]
    comparisons: Mapping[str, storage_version_pb2.HashComparison]

    @classmethod
    def of(
        cls, answer: storage_version_pb2.ListStorageVersionsResponse, names: Sequence[str]
    ) -> "Skew":
        """Return the part of an answer about the named StorageVersions, all without names."""
        objects = (one for one in answer.list.items if not names or one.metadata.name in names)
        return cls(
            tuple(objects),
            tuple(answer.members),
            {one.name: one for one in answer.comparisons},
        )


def matrix(skew: Skew, *, wide: bool, colour: bool) -> str:
    """Return a table with a line for each resource and a column for each server.

    A cell is the version that the server writes, without the group if it is that of the resource. A
    former member is marked `(gone)` until its entries are collected.
    """
    servers = _servers(skew)
    head = [_Cell("RESOURCE"), *(_Cell(title) for title in servers.values())]
    head += [_Cell(title) for title in ("COMMON", "AGREED", "HASH")]
    if wide:
        head.append(_Cell("SINCE"))
    rows = [head, *(_row(one, skew, servers, wide=wide) for one in skew.objects)]
    plain = table([[cell.text for cell in row] for row in rows])
    return _coloured(plain, rows) if colour else plain


def hostnames(members: Sequence[lease_pb2.Lease]) -> dict[str, str]:
    """Return the display name of each member: its hostname, its identity if several share that."""
    hosts = {one.metadata.name: one.metadata.labels.get(_HOSTNAME, "") for one in members}
    # The titles of columns are in upper case.
    count = Counter(host.upper() for host in hosts.values())
    return {
        name: host if host and count[host.upper()] == 1 else name for name, host in hosts.items()
    }


def _servers(skew: Skew) -> dict[str, str]:
    """Return the title of each column by identity: members, then former members."""
    hosts = hostnames(skew.members)
    titles = {name: hosts[name].upper() for name in sorted(hosts, key=lambda one: hosts[one])}
    for found in skew.objects:
        for entry in found.status.storage_versions:
            titles.setdefault(entry.api_server_id, entry.api_server_id.upper() + _GONE)
    return titles


def _row(
    found: storageversion_pb2.StorageVersion, skew: Skew, servers: Mapping[str, str], *, wide: bool
) -> list[_Cell]:
    entries = {entry.api_server_id: entry for entry in found.status.storage_versions}
    common = found.status.common_encoding_version
    usual = _most_usual([entry.encoding_version for entry in entries.values()])
    cells = [_Cell(found.metadata.name)]
    cells += [_entry_cell(entries.get(server), found, usual, wide=wide) for server in servers]
    cells.append(_Cell(_short(common, found) if common else _NOTHING))
    agreed = next((one for one in found.status.conditions if one.type == AGREED), None)
    status = agreed.status if agreed else "Unknown"
    cells.append(_Cell(status, _GOOD if status == "True" else _BAD))
    cells.append(_hash_cell(skew.comparisons.get(found.metadata.name), wide=wide))
    if wide:
        since = rfc3339(agreed.last_transition_time) if agreed else None
        cells.append(_Cell(since or _NOTHING))
    return cells


def _entry_cell(
    entry: storageversion_pb2.ServerStorageVersion | None,
    found: storageversion_pb2.StorageVersion,
    usual: str,
    *,
    wide: bool,
) -> _Cell:
    if entry is None:
        return _Cell(_NOTHING, _FAINT)
    text = _short(entry.encoding_version, found)
    if wide:
        text += f" [{','.join(_short(version, found) for version in entry.decodable_versions)}]"
    return _Cell(text, _GOOD if entry.encoding_version == usual else _BAD)


def _hash_cell(comparison: storage_version_pb2.HashComparison | None, *, wide: bool) -> _Cell:
    if comparison is None:
        return _Cell(_NOTHING, _FAINT)
    text = _VERDICTS.get(comparison.verdict, "unknown")
    differs = comparison.verdict == storage_version_pb2.HASH_VERDICT_DIFFERENT
    if wide and differs:
        text += f" ({comparison.discovery_hash}, want {comparison.reported_hash})"
    return _Cell(text, _BAD if differs else "")


def _most_usual(versions: Sequence[str]) -> str:
    """Return the version that most servers write; of several the first by name; empty for none."""
    count = Counter(versions)
    return min(count, key=lambda version: (-count[version], version), default="")


def _short(version: str, found: storageversion_pb2.StorageVersion) -> str:
    group = found.metadata.name.rpartition(".")[0]
    return version.removeprefix(f"{group}/")


def _coloured(plain: str, rows: Sequence[Sequence[_Cell]]) -> str:
    """Return the table with colours, which do not affect alignment."""
    # Cells have printable characters only, so no line feeds.
    lines = plain.removesuffix("\n").split("\n")
    return "".join(f"{_coloured_line(line, row)}\n" for line, row in zip(lines, rows, strict=True))


def _coloured_line(line: str, row: Sequence[_Cell]) -> str:
    parts, at = list[str](), 0
    for cell in row:
        text = printable(cell.text)
        begin = line.index(text, at)
        parts.append(line[at:begin])
        parts.append(click.style(text, fg=cell.colour) if cell.colour else text)
        at = begin + len(text)
    return "".join(parts)


def as_document(skew: Skew) -> dict[str, object]:
    """Return objects in Kubernetes' JSON form, and the comparisons of hashes."""
    compared = (skew.comparisons.get(one.metadata.name) for one in skew.objects)
    return {
        "storageVersions": [storage_version_json(one) for one in skew.objects],
        "members": [lease_json(one) for one in skew.members],
        "hashComparisons": [
            {
                "name": one.name,
                "discoveryHash": one.discovery_hash,
                "reportedHash": one.reported_hash,
                "verdict": _VERDICTS.get(one.verdict, "unknown").lower(),
            }
            for one in compared
            if one
        ],
    }


def storage_version_json(found: storageversion_pb2.StorageVersion) -> dict[str, object]:
    """Return a StorageVersion with its apiVersion and kind."""
    return {
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
        "kind": "StorageVersion",
        # Kubernetes writes these also when empty.
        "metadata": {},
        "spec": {},
        "status": {},
        **dict(_fields(found)),
    }


def lease_json(found: lease_pb2.Lease) -> dict[str, object]:
    """Return a Lease with its apiVersion and kind."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {},
        "spec": {},
        **dict(_fields(found)),
    }


def rfc3339(time: meta_pb2.Time | meta_pb2.MicroTime) -> str | None:
    """Return a time as Kubernetes writes it; None for one that is not set.

    A Time has seconds, a MicroTime microseconds. Times beyond the years 1 to 9999, which healthy
    servers do not send, are None too.
    """
    if not time.HasField("seconds"):
        return None
    try:
        moment = _EPOCH + timedelta(seconds=time.seconds, microseconds=time.nanos // 1000)
    except OverflowError:
        return None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    micros = f".{moment.microsecond:06d}" if isinstance(time, meta_pb2.MicroTime) else ""
    return f"{text.zfill(19)}{micros}Z"


def _fields(message: Message) -> Iterator[tuple[str, object]]:
    for field, value in message.ListFields():
        written = _written(field, value)
        name = field.json_name
        if name == _NULLABLE or not (written is None or written == ""):
            yield name, written


def _written(field: FieldDescriptor, value: object) -> object:
    if field.message_type and field.message_type.GetOptions().map_entry:
        entries = cast("Mapping[str, str]", value)
        return {key: entries[key] for key in sorted(entries)}
    if field.is_repeated:
        return [_single(each) for each in cast("Sequence[object]", value)]
    # An int64 of these kinds is not a pointer, so Kubernetes omits zero.
    if field.type == FieldDescriptor.TYPE_INT64 and value == 0:
        return None
    return _single(value)


def _single(value: object) -> object:
    match value:
        case meta_pb2.Time() | meta_pb2.MicroTime():
            return rfc3339(value)
        case meta_pb2.FieldsV1():
            return _json(value.raw)
        case Message():
            return dict(_fields(value))
        case _:
            return value


def _json(raw: bytes) -> object:
    try:
        parsed: object = json.loads(raw)
    except ValueError:
        return None
    return parsed
