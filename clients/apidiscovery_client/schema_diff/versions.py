"""Two states of a CustomResourceDefinition: its versions, names and subresources, and schemas."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_client.schema_diff.comparing import compare
from apidiscovery_client.schema_diff.model import Applying, Change, Outcome, Reading, Verdicts
from apidiscovery_client.schema_diff.validating import canonical

_FINE = Verdicts()
_GONE = Verdicts(Outcome.REJECTED, Reading.ABSENT)
# The server refuses such an update; people delete the definition, and all objects with it.
_IMMUTABLE = Verdicts(Outcome.REJECTED, Reading.ABSENT, Outcome.REJECTED)


def versions_in(spec: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """Return the versions of a definition by name; v1beta1 has their fields outside of them."""
    several: Sequence[object] = as_list(spec.get("versions"))
    if not several and spec.get("version"):
        several = [{"name": spec["version"], "served": True, "storage": True}]
    shared = {
        "schema": spec.get("validation"),
        "subresources": spec.get("subresources"),
        "additionalPrinterColumns": spec.get("additionalPrinterColumns"),
    }
    versions = ({**shared, **as_object(one)} for one in several)
    return {str(version.get("name") or ""): version for version in versions}


@dataclass(frozen=True, slots=True)
class _Definition:
    """A definition, of v1 or v1beta1."""

    spec: Mapping[str, object]
    status: Mapping[str, object]

    @property
    def versions(self) -> dict[str, Mapping[str, object]]:
        """Versions by name."""
        return versions_in(self.spec)

    @property
    def strategy(self) -> str:
        """The conversion strategy."""
        return str(as_object(self.spec.get("conversion")).get("strategy") or "None")

    @property
    def storage_version(self) -> str:
        """The version that is stored; empty where none is."""
        return next((name for name, one in self.versions.items() if one.get("storage")), "")


def compare_definitions(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[Change, ...]:
    """Return what is different between two states of a CustomResourceDefinition.

    Versions go with the version of the same name. Their changes have group, version and kind;
    those of the definition have no version, and its field as the path, such as `spec.scope`.

    Args:
        old: As JSON; its status tells which versions are stored.
        new: The same, later; where it has no status, that of `old` counts.

    Raises:
        InvalidSchema: A schema is too deep, or has too many changes.
    """
    before = _Definition(as_object(old.get("spec")), as_object(old.get("status")))
    after = _Definition(as_object(new.get("spec")), as_object(new.get("status")))
    group = str(after.spec.get("group") or before.spec.get("group") or "")
    kind = str(as_object(after.spec.get("names")).get("kind") or "")
    found = [
        *_identity(before, after),
        *_storage(before, after),
    ]
    told = [replace(change, group=group, kind=kind) for change in found]
    for name in sorted({*before.versions, *after.versions}):
        one, other = before.versions.get(name), after.versions.get(name)
        told += [
            replace(change, group=group, version=name, kind=kind)
            for change in _version(name, one, other)
        ]
    return tuple(told)


def _identity(old: _Definition, new: _Definition) -> Iterator[Change]:
    if old.spec.get("group") != new.spec.get("group"):
        before, after = old.spec.get("group"), new.spec.get("group")
        yield Change("spec.group", "group-changed", before, after, _IMMUTABLE)
    if old.spec.get("scope") != new.spec.get("scope"):
        before, after = old.spec.get("scope"), new.spec.get("scope")
        yield Change("spec.scope", "scope-changed", before, after, _IMMUTABLE)
    names_old, names_new = as_object(old.spec.get("names")), as_object(new.spec.get("names"))
    for key in sorted({*names_old, *names_new}):
        before, after = names_old.get(key), names_new.get(key)
        if before == after:
            continue
        verdicts = _FINE
        if key == "plural":
            verdicts = _IMMUTABLE
        elif key in ("kind", "listKind"):
            writer = Outcome.REJECTED if key == "kind" else Outcome.FINE
            verdicts = Verdicts(writer, Reading.DIFFERENT, writer)
        yield Change(f"spec.names.{key}", "names-changed", before, after, verdicts)
    if old.spec.get("preserveUnknownFields") is True and not new.spec.get("preserveUnknownFields"):
        verdicts = Verdicts(Outcome.PRUNED, Reading.ABSENT, Outcome.PRUNED)
        path = "spec.preserveUnknownFields"
        yield Change(
            path, "preserve-unknown-fields-changed", before=True, after=False, verdicts=verdicts
        )


def _storage(old: _Definition, new: _Definition) -> Iterator[Change]:
    status = new.status or old.status
    for name in as_list(status.get("storedVersions")):
        if str(name) not in new.versions:
            # The server refuses the definition: status.storedVersions must be in spec.versions.
            verdicts = Verdicts(Outcome.FINE, Reading.FINE, Outcome.REJECTED)
            yield Change("status.storedVersions", "stored-version-removed", name, None, verdicts)
    if old.strategy != new.strategy or (
        old.strategy != "None" and old.spec.get("conversion") != new.spec.get("conversion")
    ):
        reason = "what a conversion webhook does cannot be read from the definition"
        verdicts = Verdicts(
            Outcome.UNKNOWN, Reading.UNKNOWN, Outcome.UNKNOWN, Applying.UNKNOWN, reason
        )
        before, after = old.spec.get("conversion"), new.spec.get("conversion")
        yield Change("spec.conversion", "conversion-changed", before, after, verdicts)
    before, after = old.storage_version, new.storage_version
    if before == after:
        return
    verdicts = _FINE
    if new.strategy != "None" or not _is_same(new.versions.get(before), new.versions.get(after)):
        reason = "objects are stored in a version that is converted, or has another schema"
        verdicts = Verdicts(Outcome.UNKNOWN, Reading.FINE, Outcome.UNKNOWN, reason=reason)
    yield Change("spec.versions", "storage-version-changed", before, after, verdicts)


def _is_same(one: Mapping[str, object] | None, other: Mapping[str, object] | None) -> bool:
    """Tell whether two versions have the same schema, whatever their descriptions are."""
    return one is not None and other is not None and not compare(schema_of(one), schema_of(other))


def _version(
    name: str, old: Mapping[str, object] | None, new: Mapping[str, object] | None
) -> Iterator[Change]:
    path = f"spec.versions[{name}]"
    was_served = old is not None and old.get("served") is not False
    is_served = new is not None and new.get("served") is not False
    if old is None or new is None:
        change = "version-added" if old is None else "version-removed"
        verdicts = _GONE if was_served else _FINE
        yield Change(path, change, old and name, new and name, verdicts)
        return
    if was_served != is_served:
        verdicts = _GONE if was_served else _FINE
        yield Change(f"{path}.served", "served-changed", was_served, is_served, verdicts)
    if bool(old.get("deprecated")) != bool(new.get("deprecated")):
        was, now = bool(old.get("deprecated")), bool(new.get("deprecated"))
        yield Change(f"{path}.deprecated", "deprecated-changed", was, now, _FINE)
    yield from _subresources(path, old, new)
    for key, change, reader in (
        ("additionalPrinterColumns", "printer-columns-changed", Reading.FINE),
        ("selectableFields", "selectable-fields-changed", Reading.DIFFERENT),
    ):
        one, other = as_list(old.get(key)), as_list(new.get(key))
        texts = {canonical(field) for field in other}
        if canonical(list(one)) != canonical(list(other)):
            lost = any(canonical(field) not in texts for field in one)
            verdicts = Verdicts(reader=reader if lost else Reading.FINE)
            yield Change(f"{path}.{key}", change, list(one), list(other), verdicts)
    yield from compare(schema_of(old), schema_of(new))


def schema_of(version: Mapping[str, object]) -> Mapping[str, object]:
    """Return the schema of a version of a definition; of one without it any field is kept."""
    found = as_object(as_object(version.get("schema")).get("openAPIV3Schema"))
    return found or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _subresources(
    path: str, old: Mapping[str, object], new: Mapping[str, object]
) -> Iterator[Change]:
    before, after = as_object(old.get("subresources")), as_object(new.get("subresources"))
    if ("status" in before) != ("status" in after):
        has_status = any(
            "status" in as_object(schema_of(one).get("properties")) for one in (old, new)
        )
        if "status" in after:
            # What a manifest says of status is dropped now: only /status writes it.
            verdicts = Verdicts(Outcome.PRUNED if has_status else Outcome.FINE)
        else:
            verdicts = Verdicts(Outcome.REJECTED)  # for writers of /status, which is gone
        was, now = "status" in before, "status" in after
        yield Change(
            f"{path}.subresources.status", "status-subresource-changed", was, now, verdicts
        )
    if before.get("scale") != after.get("scale"):
        verdicts = _FINE
        if "scale" in before:
            gone = "scale" not in after
            verdicts = _GONE if gone else Verdicts(Outcome.FINE, Reading.DIFFERENT)
        one, other = before.get("scale"), after.get("scale")
        yield Change(
            f"{path}.subresources.scale", "scale-subresource-changed", one, other, verdicts
        )
