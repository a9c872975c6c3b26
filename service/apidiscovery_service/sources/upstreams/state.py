"""The known discovery of an upstream, and the record of it.

A record is lines of JSON: the state, then for each path its groups as an aggregated document, with
the fields that only unaggregated documents have.
"""

import base64
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, cast

import orjson

from apidiscovery_service.core.cluster import Dialect
from apidiscovery_service.core.group_document import group_value
from apidiscovery_service.core.model import Freshness, Group, shared
from apidiscovery_service.core.source import CertificateExpiry
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.upstreams.discovery_answers import Reading, read_aggregated
from apidiscovery_service.sources.upstreams.record_store import RecordFormat
from apidiscovery_service.sources.upstreams.spec import UpstreamLimits

# Accepted content stays accepted, whatever the limits are now.
_RECORD_LIMITS = UpstreamLimits(group_versions=10**9)


@dataclass(frozen=True, slots=True)
class Root:
    """The known state of one path, `/api` or `/apis`; paths fail independently.

    Attributes:
        core: Whether it has the core group.
        state: `Current`, or `Stale` when the last attempt failed.
        since: When the state began, RFC 3339 in UTC; empty before the first attempt.
        error: Why it is stale, in one line.
        reason: The kind of failure, as metrics count it.
        etag: The ETag of the last document, verbatim.
        old: Whether the server has no aggregated discovery.
        groups: The last known groups, in the server's order.
        failures: For an old server, the group-versions that failed, each with the reason.
        warnings: The parts of the document that were left out.
        listed: The names of groups in the order of the unaggregated list; empty if unknown.
        has_creation_timestamps: Whether the groups of its aggregated document have
            `"creationTimestamp":null`.
        has_answered: Whether it has ever answered, even without groups.
    """

    path: str
    core: bool
    state: Freshness = Freshness.STALE
    since: str = ""
    error: str = ""
    reason: str = ""
    etag: str = ""
    old: bool = False
    groups: tuple[Group, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    has_creation_timestamps: bool = False
    has_answered: bool = False

    @property
    def is_current(self) -> bool:
        return self.state is Freshness.CURRENT


_FIELDS = [each.name for each in fields(Root) if each.name != "groups"]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Known:
    """The known state of a whole upstream.

    Attributes:
        claim: The process that polled: the revision at which its claim was created.
        dialect: The form of its documents, except the parts that `roots` have.
        certificates: The certificates of the last connection to it.
    """

    claim: int
    roots: tuple[Root, ...]
    dialect: Dialect = field(default_factory=Dialect)
    certificates: CertificateExpiry = field(default_factory=CertificateExpiry)

    @property
    def bad(self) -> list[Root]:
        """The paths that failed, or whose group-versions did."""
        return [root for root in self.roots if not root.is_current or root.failures]

    @property
    def is_well(self) -> bool:
        """Whether nothing failed."""
        return not self.bad

    @property
    def error(self) -> str:
        """Why something failed, in one line; empty if nothing did."""
        errors = [root.error for root in self.bad]
        # A server that is down fails in the same way for each path.
        reasons = {root.error.removeprefix(f"GET {root.path}: ") for root in self.bad}
        return "; ".join(errors if len(reasons) > 1 or len(errors) == 1 else reasons)


def _encode(known: Known) -> bytes:
    roots = [{name: getattr(root, name) for name in _FIELDS} for root in known.roots]
    dialect = dialect_value(known.dialect)
    head = {"claim": known.claim, "roots": roots, "dialect": dialect}
    lines = [orjson.dumps(head | {"certificates": asdict(known.certificates)})]
    for root in known.roots:
        # Group by group: orjson holds the GIL for the whole of a call.
        items = b",".join(orjson.dumps(_group_value(group)) for group in root.groups)
        lines.append(b'{"items":[' + items + b"]}")
    return b"\n".join(lines)


def _group_value(group: Group) -> dict[str, JSONValue]:
    """Return the item of an aggregated document with the fields of unaggregated ones."""
    value = group_value(group)
    versions = cast("list[dict[str, JSONValue]]", value.get("versions", []))
    for version, version_value in zip(group.versions, versions, strict=True):
        resources = cast("list[dict[str, JSONValue]]", version_value.get("resources", []))
        for resource, resource_value in zip(version.resources, resources, strict=True):
            if resource.storage_version_hash:
                resource_value["storageVersionHash"] = resource.storage_version_hash
        if version.listed:
            version_value["listed"] = version.listed
    return value


def _decode(text: bytes) -> Known:
    head, *documents = text.split(b"\n")
    content = orjson.loads(head)
    roots = zip(content["roots"], documents, strict=True)
    dialect = read_dialect(content["dialect"]) if "dialect" in content else Dialect()
    return Known(
        int(content["claim"]),
        tuple(_read_root(*root) for root in roots),
        dialect,
        _read_certificates(content.get("certificates", {})),
    )


def _read_certificates(value: dict[str, str | None]) -> CertificateExpiry:
    ends = {whose: datetime.fromisoformat(end) for whose, end in value.items() if end}
    return CertificateExpiry(ends.get("server"), ends.get("client"))


def written_group(group: Group) -> bytes:
    """Return a group as JSON that `read_group` reads; equal for equal groups."""
    return orjson.dumps(_group_value(group))


def read_group(content: bytes) -> Group:
    """Return a group that was written by `written_group`.

    Raises:
        UpstreamFailed: The content is not a group.
    """
    reading = Reading(_RECORD_LIMITS, is_record=True)
    (group,) = read_aggregated(b'{"items":[' + content + b"]}", reading)
    return group


def dialect_value(dialect: Dialect) -> dict[str, object]:
    """Return a dialect as a JSON value, without the parts that each path has."""
    return {
        "version": base64.b64encode(dialect.version).decode(),
        "addresses": dialect.addresses,
        "aggregated": dialect.aggregated,
    }


def read_dialect(value: dict[str, object]) -> Dialect:
    """Return the dialect of a JSON value.

    Raises:
        LookupError, TypeError, ValueError: The value is not a dialect.
    """
    addresses = cast("list[tuple[str, str]]", value["addresses"])
    return Dialect(
        aggregated=tuple(map(str, cast("list[object]", value["aggregated"]))),
        addresses=tuple((str(clients), str(address)) for clients, address in addresses),
        version=base64.b64decode(str(value["version"]), validate=True),
    )


def _read_root(value: dict[str, Any], document: bytes) -> Root:
    reading = Reading(_RECORD_LIMITS, core=value["core"], is_record=True)
    groups = shared(read_aggregated(document, reading))
    # A newer release may write further fields.
    root = Root(**{name: value[name] for name in _FIELDS if name in value}, groups=groups)
    return replace(
        root,
        state=Freshness(root.state),
        # A record of an earlier release has no dialect: without ETag, the next poll reads all.
        etag=root.etag if "has_creation_timestamps" in value else "",
        failures=tuple((name, text) for name, text in root.failures),
        warnings=tuple(root.warnings),
        listed=tuple(root.listed),
    )


KNOWN_RECORDS = RecordFormat("upstreams/", _encode, _decode)
