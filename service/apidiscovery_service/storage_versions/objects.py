"""Writing StorageVersions as kube-apiserver lets them be written: its rules over a collection.

What is answered has been written, to exactly the object that was judged: who comes between makes
it be judged anew. Sources: k8s.io/apiserver pkg/registry/generic/registry/store.go and
pkg/registry/rest (create.go, update.go, delete.go, meta.go); kubernetes/kubernetes
pkg/registry/apiserverinternal/storageversion/strategy.go.
"""

import secrets
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

from apidiscovery_service.kube.go_json import JSONValue, dumps
from apidiscovery_service.kube.objects import errors, field_errors, reading, validation
from apidiscovery_service.kube.objects.decoding import from_value
from apidiscovery_service.kube.objects.errors import Cause, Details, ObjectError
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.storage_versions.collection import Collection, Stored, TooLarge
from apidiscovery_service.storage_versions.object_reads import (
    Listed,
    ListOptions,
    ObjectReads,
    parse_uint,
)
from apidiscovery_service.storage_versions.stored import size_of, with_resource_version
from apidiscovery_service.storage_versions.timestamps import seconds, utc_now
from apidiscovery_service.store import Conflict
from apidiscovery_service.workers import run_sized

Change: TypeAlias = Callable[[Object], Object]
"""Makes of an object what shall stand there instead; may raise ObjectError, and be called again."""

Clock: TypeAlias = Callable[[], datetime]

# Generated names. Source: k8s.io/apiserver pkg/storage/names/generate.go; how often one is made
# anew, pkg/registry/generic/registry/store.go, maxNameGenerationCreateAttempts.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM_LENGTH = 5
_MAX_BASE_LENGTH = 63 - _RANDOM_LENGTH
_ATTEMPTS = 8

# Only the server sets them. Source: pkg/registry/rest/meta.go, WipeObjectMetaSystemFields.
_SYSTEM_FIELDS = frozenset(
    {"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}
)

# What an update of the status says of metadata; all else stays as it is. Source:
# k8s.io/apimachinery pkg/apis/meta/v1/helpers.go, ResetObjectMetaForStatus.
_SAID_BY_STATUS = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
    }
)


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must be so of an object that is to be deleted; None for whatever is."""

    uid: str | None = None
    resource_version: str | None = None


_NO_PRECONDITIONS = Preconditions()


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion has come to.

    Attributes:
        object: As it was last; as it stands there when it still has finalizers.
        details: For the Status that says that it is gone; None when it is not.
    """

    object: Object
    details: Details | None


@dataclass(frozen=True, slots=True)
class _Strategy:
    """What one kind of update may change.

    Attributes:
        prepared: Gives what will stand there, of what was sent and what stands there.
        causes: Gives what is wrong with it.
    """

    prepared: Callable[[Object, Object], Object]
    causes: Callable[[Object, Object], list[Cause]]


@dataclass(frozen=True, slots=True)
class _Update:
    """One request that changes an object.

    Attributes:
        change: Makes of what stands there what was said.
        strategy: What that may change.
        uid: Whose life is meant; None for whatever stands there.
        size: Bytes of the request.
    """

    change: Change
    strategy: _Strategy
    uid: str | None
    size: int


class Objects(ObjectReads):
    """Reads and writes the StorageVersions of a collection.

    With `dry_run` everything is judged, and nothing written: what is returned is what would have
    been. `size` is how many bytes the request has: much is judged beside the event loop.

    Every method may raise StoreUnavailable and StoreRefused; a write that ended so may have
    happened or not.

    Args:
        collection: Of StorageVersions.
        clock: Tells the time for creationTimestamp and deletionTimestamp.
    """

    def __init__(self, collection: Collection, clock: Clock = utc_now) -> None:
        super().__init__(collection)
        self._clock = clock
        self._main = _Strategy(_prepared, self._updated_causes)
        self._status = _Strategy(_with_new_status, validation.status_updated)

    async def create(self, value: Object, *, dry_run: bool = False, size: int = 0) -> Object:
        """Put an object where none is, without a status; return it as it stands there.

        Raises:
            ObjectError: 409 when one is there, or no free name was found, 422 when it breaks a
                rule, 400 when it has a resourceVersion, 413 when it is too large.
        """
        if reading.text(metadata_of(value), "resourceVersion"):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        given = reading.text(metadata_of(value), "name")
        for attempt in range(1, _ATTEMPTS + 1):
            new = await run_sized(size, lambda: self._newborn(value))
            try:
                return await self._create(new, dry_run=dry_run)
            except Conflict:
                if given or attempt == _ATTEMPTS:
                    raise await self._taken(new) from None
        raise AssertionError("the last attempt returns or raises")

    async def update(
        self, name: str, value: Object, *, dry_run: bool = False, size: int = 0
    ) -> Object:
        """Put an object in place of the one of that name, whose status stays; return what stands.

        When what comes out is what is there, nothing is written. When the last finalizer goes from
        an object that is being deleted, the object goes.

        Raises:
            ObjectError: 404 when there is none, 409 when it is not the one that the caller has
                seen, 422 when it breaks a rule or has no resourceVersion, 400 for another name,
                413 when it is too large.
        """
        _check_name(value, name)
        return await self._change(
            name, _Update(lambda _: value, self._main, _uid(value), size), dry_run=dry_run
        )

    async def update_status(
        self, name: str, value: Object, *, dry_run: bool = False, size: int = 0
    ) -> Object:
        """Put the status of an object, of which all else stays; return what stands there.

        Raises:
            ObjectError: As `update`.
        """
        _check_name(value, name)
        return await self._change(
            name, _Update(lambda _: value, self._status, _uid(value), size), dry_run=dry_run
        )

    async def patch(
        self, name: str, change: Change, *, dry_run: bool = False, size: int = 0
    ) -> Object:
        """Change an object but its status; return it as it stands there.

        Args:
            name: Which.
            change: What the patch does. It is done again when somebody came between, unless it
                gives another resourceVersion than it found.
            dry_run: Whether nothing is written.
            size: Bytes of the patch.

        Raises:
            ObjectError: As `update`, and what the change raises.
        """
        return await self._change(name, _Update(change, self._main, None, size), dry_run=dry_run)

    async def patch_status(
        self, name: str, change: Change, *, dry_run: bool = False, size: int = 0
    ) -> Object:
        """Change the status of an object; return it as it stands there.

        Raises:
            ObjectError: As `patch`.
        """
        return await self._change(name, _Update(change, self._status, None, size), dry_run=dry_run)

    async def delete(
        self,
        name: str,
        preconditions: Preconditions = _NO_PRECONDITIONS,
        *,
        dry_run: bool = False,
    ) -> Deleted:
        """Remove an object, or mark it when it has finalizers.

        Raises:
            ObjectError: 404 when there is none, 409 when a precondition does not hold.
        """
        while True:
            stored = await self._existing(name)
            self._check_preconditions(stored, preconditions)
            try:
                return await self._delete(stored, dry_run=dry_run)
            except Conflict:
                continue  # somebody came between

    async def delete_collection(
        self,
        options: ListOptions,
        preconditions: Preconditions = _NO_PRECONDITIONS,
        *,
        dry_run: bool = False,
    ) -> Listed:
        """Delete what a list has, one by one; return the list.

        What has gone meanwhile is left alone, and what has come in its place too.

        Raises:
            ObjectError: As `list` and `delete`; those before it are deleted then.
        """
        listed = await self.list(options)
        for item in listed.items:
            await self._delete_listed(item, preconditions, dry_run=dry_run)
        return listed

    # Creating.

    def _newborn(self, value: Object) -> Object:
        """Return what shall stand there.

        Raises:
            ObjectError: It may not.
        """
        given = metadata_of(value)
        metadata = {k: v for k, v in given.items() if k not in _SYSTEM_FIELDS}
        if not self.kind.namespaced:
            metadata.pop("namespace", None)
        base = reading.text(given, "generateName")
        if base and not reading.text(given, "name"):
            metadata["name"] = generated_name(base)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": seconds(self._clock())}
        new = from_value(_with_status(_with_metadata(value, metadata), {}), self.kind).object
        self._check(new, validation.created(new, self.kind))
        return new

    async def _create(self, new: Object, *, dry_run: bool) -> Object:
        if not dry_run:
            return (await _fitting(self._collection.create(new))).object
        name = reading.text(metadata_of(new), "name")
        if (stored := await self._read(name)) is not None:
            raise Conflict(stored.key, stored.revision)
        return new

    async def _taken(self, new: Object) -> ObjectError:
        """Return why an object cannot be created where another is."""
        metadata = metadata_of(new)
        name = reading.text(metadata, "name")
        generated = reading.text(metadata, "generateName")
        error = (errors.name_not_generated if generated else errors.already_exists)(self.kind, name)
        stored = await self._read(name)
        if stored is None or "deletionTimestamp" not in metadata_of(stored.object):
            return error
        message = f"object is being deleted: {error.message}"
        return ObjectError(error.code, error.reason, message, error.details)

    # Updating.

    async def _change(self, name: str, update: _Update, *, dry_run: bool) -> Object:
        while True:
            stored = await self._read(name)
            if update.uid is not None:
                self._check_uid(name, stored, update.uid)
            if stored is None:
                raise errors.not_found(self.kind, name)
            size = update.size + size_of(stored.object)
            new = await run_sized(size, partial(self._judged, stored, update))
            try:
                return await self._write(stored, new, dry_run=dry_run)
            except Conflict:
                continue  # somebody came between; what was seen is compared again

    def _judged(self, stored: Stored, update: _Update) -> Object:
        """Return what shall stand there.

        Raises:
            ObjectError: It may not.
        """
        said, strategy = update.change(stored.object), update.strategy
        _check_name(said, stored.name)
        self._check_version(stored, reading.text(metadata_of(said), "resourceVersion"))
        new = from_value(strategy.prepared(said, stored.object), self.kind).object
        self._check(new, strategy.causes(new, stored.object))
        return new

    async def _write(self, stored: Stored, new: Object, *, dry_run: bool) -> Object:
        if dry_run:
            return new
        if _ends(new, stored.object):
            await self._collection.remove(stored)
            return new
        if _text(new) == _text(stored.object):
            return stored.object
        return (await _fitting(self._collection.replace(stored, new))).object

    def _updated_causes(self, new: Object, old: Object) -> list[Cause]:
        return validation.updated(new, old, self.kind)

    def _check(self, new: Object, causes: list[Cause]) -> None:
        if causes:
            raise errors.invalid(self.kind, reading.text(metadata_of(new), "name"), causes)

    def _check_version(self, stored: Stored, said: str) -> None:
        """Refuse an object that is not made of the one that stands there."""
        field = "metadata.resourceVersion"
        try:
            version = parse_uint(said) if said else 0
        except ValueError as error:
            cause = field_errors.invalid(field, said, str(error))
            raise errors.invalid(self.kind, stored.name, [cause]) from None
        if version == 0:
            # Upstream shows Go's unsigned zero, and names the resource instead of the kind.
            message = "Invalid value: 0x0: must be specified for an update"
            resource = replace(self.kind, kind=self.kind.plural)
            raise errors.invalid(
                resource, stored.name, [Cause("FieldValueInvalid", message, field)]
            )
        if version != stored.revision:
            raise errors.conflict(self.kind, stored.name)

    def _check_uid(self, name: str, stored: Stored | None, uid: str) -> None:
        """Refuse to change another life of an object than was meant.

        Source: k8s.io/apiserver pkg/storage/interfaces.go, Preconditions.Check.
        """
        present = reading.text(metadata_of(stored.object), "uid") if stored else ""
        if uid != present:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present}"
            raise errors.conflict(self.kind, name, why)

    # Deleting.

    async def _delete(self, stored: Stored, *, dry_run: bool) -> Deleted:
        if _finalizers(stored.object):
            return await self._mark(stored, dry_run=dry_run)
        if not dry_run:
            await self._collection.remove(stored)
        uid = reading.text(metadata_of(stored.object), "uid")
        return Deleted(stored.object, Details(stored.name, self.kind.group, self.kind.plural, uid))

    async def _mark(self, stored: Stored, *, dry_run: bool) -> Deleted:
        """Say in an object that it shall go as soon as it has no finalizers."""
        metadata = metadata_of(stored.object)
        if "deletionTimestamp" in metadata:
            return Deleted(stored.object, None)
        marks: Object = {
            "deletionTimestamp": seconds(self._clock()),
            "deletionGracePeriodSeconds": 0,
        }
        if generation := reading.integer(metadata, "generation"):
            marks["generation"] = generation + 1
        marked = from_value(_with_metadata(stored.object, metadata | marks), self.kind).object
        if dry_run:
            return Deleted(marked, None)
        return Deleted((await _fitting(self._collection.replace(stored, marked))).object, None)

    async def _delete_listed(
        self, item: Object, preconditions: Preconditions, *, dry_run: bool
    ) -> None:
        """Delete an object of a list unless it has gone, also if another has its name now."""
        name, uid = (reading.text(metadata_of(item), field) for field in ("name", "uid"))
        while True:
            stored = await self._read(name)
            if stored is None or reading.text(metadata_of(stored.object), "uid") != uid:
                return
            self._check_preconditions(stored, preconditions)
            try:
                await self._delete(stored, dry_run=dry_run)
            except Conflict:
                continue
            return

    def _check_preconditions(self, stored: Stored, preconditions: Preconditions) -> None:
        """Source: k8s.io/apiserver pkg/registry/rest/delete.go, BeforeDelete."""
        uid, version = preconditions.uid, preconditions.resource_version
        present = reading.text(metadata_of(stored.object), "uid")
        # Upstream names the kind instead of the resource.
        kind = replace(self.kind, plural=self.kind.kind)
        if uid is not None and uid != present:
            why = (
                f"the UID in the precondition ({uid}) does not match the UID in record "
                f"({present}). The object might have been deleted and then recreated"
            )
            raise errors.conflict(kind, stored.name, why)
        if version is not None and version != str(stored.revision):
            why = (
                f"the ResourceVersion in the precondition ({version}) does not match the "
                f"ResourceVersion in record ({stored.revision}). The object might have been "
                "modified"
            )
            raise errors.conflict(kind, stored.name, why)


def generated_name(base: str) -> str:
    """Return a name that nobody has thought of: a base, cut to 58 bytes, and five letters."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_RANDOM_LENGTH))
    return base.encode()[:_MAX_BASE_LENGTH].decode(errors="ignore") + letters


def _prepared(new: Object, old: Object) -> Object:
    """Return an object as an update leaves it: what only the server says stays as it is.

    Source: k8s.io/apiserver pkg/registry/rest/update.go, BeforeUpdate.
    """
    given, kept = metadata_of(new), metadata_of(old)
    metadata = {k: v for k, v in given.items() if k not in ("namespace", "generation")}
    fixed = ("namespace", "generation", "creationTimestamp", "deletionTimestamp")
    metadata |= {name: kept[name] for name in fixed if name in kept}
    for name in ("uid", "deletionGracePeriodSeconds"):
        if name in kept:
            metadata.setdefault(name, kept[name])
    return _with_status(_with_metadata(new, metadata), old.get("status"))


def _with_new_status(new: Object, old: Object) -> Object:
    """Return the object that stands there with the status of another."""
    said = {k: v for k, v in metadata_of(new).items() if k in _SAID_BY_STATUS}
    kept = {k: v for k, v in metadata_of(old).items() if k not in _SAID_BY_STATUS}
    prepared = _prepared(_with_metadata(old, kept | said), old)
    return _with_status(prepared, new.get("status"))


def _with_metadata(value: Object, metadata: Object) -> Object:
    """Return the object with just this metadata, in the same place."""
    changed: Object = {key: value[key] for key in ("kind", "apiVersion") if key in value}
    return changed | {"metadata": metadata} | {k: v for k, v in value.items() if k != "metadata"}


def _with_status(value: Object, status: JSONValue) -> Object:
    return value | {"status": status}


def _ends(new: Object, old: Object) -> bool:
    """Tell whether an update takes the last finalizer from an object that shall go.

    Source: pkg/registry/generic/registry/store.go, ShouldDeleteDuringUpdate.
    """
    marked = metadata_of(old)
    grace_s = reading.integer(marked, "deletionGracePeriodSeconds")
    return "deletionTimestamp" in marked and grace_s == 0 and not _finalizers(new)


def _text(value: Object) -> bytes:
    """Return what is kept of an object that is in Go's form."""
    return dumps(with_resource_version(value, 0))


def _uid(value: Object) -> str | None:
    return reading.text(metadata_of(value), "uid") or None


def _finalizers(value: Object) -> bool:
    return bool(reading.strings(metadata_of(value), "finalizers"))


def _check_name(value: Object, name: str) -> None:
    """Source: k8s.io/apiserver pkg/endpoints/handlers/rest.go, checkName."""
    said = reading.text(metadata_of(value), "name")
    if not said:
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if said != name:
        raise errors.bad_request(
            f"the name of the object ({said}) does not match the name on the URL ({name})"
        )


async def _fitting(writing: Coroutine[object, object, Stored]) -> Stored:
    """Return what a write returns.

    Raises:
        ObjectError: It is too large.
    """
    try:
        return await writing
    except TooLarge as error:
        raise errors.too_large(str(error)) from None
