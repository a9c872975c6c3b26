"""Writes of StorageVersions under kube-apiserver's rules, over a collection.

Every write replaces exactly the object that it was validated against; after a concurrent change it
is validated again. Sources: k8s.io/apiserver pkg/registry/generic/registry/store.go and
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

from apidiscovery_formats.times import time_text

from apidiscovery_service.kube.go_json import dumps
from apidiscovery_service.kube.objects import errors, field_errors, json_fields, validation
from apidiscovery_service.kube.objects.decoding import from_value
from apidiscovery_service.kube.objects.errors import Cause, Details, ObjectError
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import finalizers_of, is_terminating, metadata_of
from apidiscovery_service.storage_versions.collection import (
    Collection,
    StoredObject,
    TooLarge,
    size_of,
)
from apidiscovery_service.storage_versions.model import (
    marked_for_deletion,
    utc_now,
)
from apidiscovery_service.storage_versions.object_reads import (
    ListedObjects,
    ListOptions,
    ObjectReads,
    parse_uint,
)
from apidiscovery_service.storage_versions.recent_events import with_resource_version
from apidiscovery_service.store import Conflict
from apidiscovery_service.workers import run_sized

Change: TypeAlias = Callable[[Object], Object]
"""Returns the new object for the current one; may raise ObjectError, and may be called again."""

# Generated names. Sources: k8s.io/apiserver pkg/storage/names/generate.go; for the attempts,
# pkg/registry/generic/registry/store.go, maxNameGenerationCreateAttempts.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM_LENGTH = 5
_MAX_BASE_LENGTH = 63 - _RANDOM_LENGTH
_ATTEMPTS = 8

# Fields that only the server sets. Source: pkg/registry/rest/meta.go, WipeObjectMetaSystemFields.
_SYSTEM_FIELDS = frozenset(
    {"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}
)

# Metadata that an update of the status may name; all else stays as it is. Source:
# k8s.io/apimachinery pkg/apis/meta/v1/helpers.go, ResetObjectMetaForStatus.
_STATUS_METADATA = frozenset(
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
    """Conditions of a deletion; None for no condition."""

    uid: str | None = None
    resource_version: str | None = None


_NO_PRECONDITIONS = Preconditions()


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion.

    Attributes:
        object: The removed object, or the marked one if it still has finalizers.
        details: For the Status of a removal; None if the object was only marked.
    """

    object: Object
    details: Details | None


@dataclass(frozen=True, slots=True)
class _Update:
    """A request that changes an object.

    Attributes:
        change: Makes the requested object from the current one.
        is_status: Whether it changes the status and nothing else, or all but the status.
        uid: The uid that the object must have; None for any.
        size: Bytes of the request.
    """

    change: Change
    is_status: bool
    uid: str | None
    size: int


class Objects(ObjectReads):
    """Reads and writes the StorageVersions of a collection.

    With `dry_run` everything is validated and nothing is written; the result is as if it were.
    `size` is the size of the request in bytes: large ones are validated in a thread.

    Every method may raise StoreUnavailable and StoreRefused; a write that ended so may have
    happened or not.

    Args:
        collection: The StorageVersions.
        clock: Returns the time for creationTimestamp and deletionTimestamp.
    """

    def __init__(self, collection: Collection, clock: Callable[[], datetime] = utc_now) -> None:
        super().__init__(collection)
        self._clock = clock

    async def create(self, value: Object, *, dry_run: bool = False, size: int = 0) -> Object:
        """Create an object, without a status; return it as stored.

        Raises:
            ObjectError: 409 when the name is taken or no free one was found, 422 when it is
                invalid, 400 when it has a resourceVersion, 413 when it is too large.
        """
        if json_fields.text(metadata_of(value), "resourceVersion"):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        given = json_fields.text(metadata_of(value), "name")
        for attempt in range(1, _ATTEMPTS + 1):
            new = await run_sized(size, lambda: self._new_object(value))
            try:
                return await self._create(new, dry_run=dry_run)
            except Conflict:
                if given or attempt == _ATTEMPTS:
                    raise await self._name_taken(new) from None
        raise AssertionError("the last attempt returns or raises")

    async def update(
        self,
        name: str,
        value: Object,
        *,
        is_status: bool = False,
        dry_run: bool = False,
        size: int = 0,
    ) -> Object:
        """Replace the object of that name, or its status; return it as stored.

        An update that changes nothing writes nothing. An update that takes the last finalizer from
        an object marked for deletion removes it.

        Args:
            name: Its name.
            value: The new object.
            is_status: Whether its status is replaced and nothing else, or all but the status.
            dry_run: Whether nothing is written.
            size: Bytes of the request.

        Raises:
            ObjectError: 404 when there is none, 409 when it has changed since the caller read it,
                422 when it is invalid or has no resourceVersion, 400 for another name, 413 when it
                is too large.
        """
        _check_name(value, name)
        uid = json_fields.text(metadata_of(value), "uid") or None
        update = _Update(lambda _: value, is_status, uid, size)
        return await self._change(name, update, dry_run=dry_run)

    async def patch(
        self,
        name: str,
        change: Change,
        *,
        is_status: bool = False,
        dry_run: bool = False,
        size: int = 0,
    ) -> Object:
        """Patch an object or its status; return it as stored.

        Args:
            name: Its name.
            change: Applies the patch. It is applied again after a concurrent change, unless it
                sets another resourceVersion than it found.
            is_status: As for `update`.
            dry_run: Whether nothing is written.
            size: Bytes of the patch.

        Raises:
            ObjectError: As `update`, and those of the change.
        """
        update = _Update(change, is_status, None, size)
        return await self._change(name, update, dry_run=dry_run)

    async def delete(
        self,
        name: str,
        preconditions: Preconditions = _NO_PRECONDITIONS,
        *,
        dry_run: bool = False,
    ) -> Deleted:
        """Remove an object, or mark it for deletion if it has finalizers.

        Raises:
            ObjectError: 404 when there is none, 409 when a precondition does not hold.
        """
        deleted = await self._delete_named(name, None, preconditions, dry_run=dry_run)
        if deleted is None:
            raise errors.not_found(self.kind, name)
        return deleted

    async def delete_collection(
        self,
        options: ListOptions,
        preconditions: Preconditions = _NO_PRECONDITIONS,
        *,
        dry_run: bool = False,
    ) -> ListedObjects:
        """Delete the objects of a list one by one; return the list.

        Objects that were removed or replaced by others of the same name meanwhile are skipped.

        Raises:
            ObjectError: As `list` and `delete`; the objects before it are deleted then.
        """
        listed = await self.list(options)
        for item in listed.items:
            name, uid = (json_fields.text(metadata_of(item), field) for field in ("name", "uid"))
            await self._delete_named(name, uid, preconditions, dry_run=dry_run)
        return listed

    # Creating.

    def _new_object(self, value: Object) -> Object:
        """Return the object to store.

        Raises:
            ObjectError: It is invalid.
        """
        given = metadata_of(value)
        metadata = {k: v for k, v in given.items() if k not in _SYSTEM_FIELDS}
        if not self.kind.namespaced:
            metadata.pop("namespace", None)
        base = json_fields.text(given, "generateName")
        if base and not json_fields.text(given, "name"):
            metadata["name"] = generated_name(base)
        metadata |= {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": time_text(self._clock()),
        }
        new = from_value(value | {"metadata": metadata, "status": {}}, self.kind).object
        self._check(new, validation.created(new, self.kind))
        return new

    async def _create(self, new: Object, *, dry_run: bool) -> Object:
        if not dry_run:
            return (await _fitting(self._collection.create(new))).object
        name = json_fields.text(metadata_of(new), "name")
        if (stored := await self._read(name)) is not None:
            raise Conflict(stored.key, stored.revision)
        return new

    async def _name_taken(self, new: Object) -> ObjectError:
        """Return the error for an object whose name is taken."""
        metadata = metadata_of(new)
        name = json_fields.text(metadata, "name")
        generated = json_fields.text(metadata, "generateName")
        error = (errors.name_not_generated if generated else errors.already_exists)(self.kind, name)
        stored = await self._read(name)
        if stored is None or not is_terminating(stored.object):
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
            new = await run_sized(size, partial(self._updated, stored, update))
            try:
                return await self._write(stored, new, dry_run=dry_run)
            except Conflict:
                continue  # a concurrent change; the resourceVersion is compared again

    def _updated(self, stored: StoredObject, update: _Update) -> Object:
        """Return the object to store.

        Raises:
            ObjectError: It is invalid.
        """
        requested, old = update.change(stored.object), stored.object
        _check_name(requested, stored.name)
        self._check_version(stored, json_fields.text(metadata_of(requested), "resourceVersion"))
        prepare = _with_new_status if update.is_status else _prepared
        new = from_value(prepare(requested, old), self.kind).object
        if update.is_status:
            self._check(new, validation.status_updated(new, old))
        else:
            self._check(new, validation.updated(new, old, self.kind))
        return new

    async def _write(self, stored: StoredObject, new: Object, *, dry_run: bool) -> Object:
        if dry_run:
            return new
        if _takes_last_finalizer(new, stored.object):
            await self._collection.remove(stored)
            return new
        if _text(new) == _text(stored.object):
            return stored.object
        return (await _fitting(self._collection.replace(stored, new))).object

    def _check(self, new: Object, causes: list[Cause]) -> None:
        if causes:
            raise errors.invalid(self.kind, json_fields.text(metadata_of(new), "name"), causes)

    def _check_version(self, stored: StoredObject, text: str) -> None:
        """Refuse an object that was not made from the stored one."""
        field = "metadata.resourceVersion"
        try:
            version = parse_uint(text) if text else 0
        except ValueError as error:
            cause = field_errors.invalid(field, text, str(error))
            raise errors.invalid(self.kind, stored.name, [cause]) from None
        if version == 0:
            # Upstream prints Go's unsigned zero, and the resource in place of the kind.
            message = "Invalid value: 0x0: must be specified for an update"
            resource = replace(self.kind, kind=self.kind.plural)
            raise errors.invalid(
                resource, stored.name, [Cause("FieldValueInvalid", message, field)]
            )
        if version != stored.revision:
            raise errors.conflict(self.kind, stored.name)

    def _check_uid(self, name: str, stored: StoredObject | None, uid: str) -> None:
        """Refuse to change another object of the same name.

        Source: k8s.io/apiserver pkg/storage/interfaces.go, Preconditions.Check.
        """
        present = json_fields.text(metadata_of(stored.object), "uid") if stored else ""
        if uid != present:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present}"
            raise errors.conflict(self.kind, name, why)

    # Deleting.

    async def _delete_named(
        self, name: str, uid: str | None, preconditions: Preconditions, *, dry_run: bool
    ) -> Deleted | None:
        """Delete an object; return None when there is none of that name and uid."""
        while True:
            stored = await self._read(name)
            if stored is None:
                return None
            if uid is not None and json_fields.text(metadata_of(stored.object), "uid") != uid:
                return None
            self._check_preconditions(stored, preconditions)
            try:
                return await self._delete(stored, dry_run=dry_run)
            except Conflict:
                continue  # a concurrent change

    async def _delete(self, stored: StoredObject, *, dry_run: bool) -> Deleted:
        if finalizers_of(stored.object):
            return await self._mark(stored, dry_run=dry_run)
        if not dry_run:
            await self._collection.remove(stored)
        uid = json_fields.text(metadata_of(stored.object), "uid")
        return Deleted(stored.object, Details(stored.name, self.kind.group, self.kind.plural, uid))

    async def _mark(self, stored: StoredObject, *, dry_run: bool) -> Deleted:
        """Mark an object for deletion once it has no finalizers."""
        if is_terminating(stored.object):
            return Deleted(stored.object, None)
        marked = marked_for_deletion(stored.object, self._clock())
        if dry_run:
            return Deleted(marked, None)
        return Deleted((await _fitting(self._collection.replace(stored, marked))).object, None)

    def _check_preconditions(self, stored: StoredObject, preconditions: Preconditions) -> None:
        """Source: k8s.io/apiserver pkg/registry/rest/delete.go, BeforeDelete."""
        uid, version = preconditions.uid, preconditions.resource_version
        present = json_fields.text(metadata_of(stored.object), "uid")
        # Upstream prints the kind in place of the resource.
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
    """Return a random name: the base, cut to 58 bytes, and five letters."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_RANDOM_LENGTH))
    return base.encode()[:_MAX_BASE_LENGTH].decode(errors="ignore") + letters


def _prepared(new: Object, old: Object) -> Object:
    """Return the object after an update, with the fields that only the server sets as before.

    Source: k8s.io/apiserver pkg/registry/rest/update.go, BeforeUpdate.
    """
    given, current = metadata_of(new), metadata_of(old)
    metadata = {k: v for k, v in given.items() if k not in ("namespace", "generation")}
    fixed = ("namespace", "generation", "creationTimestamp", "deletionTimestamp")
    metadata |= {name: current[name] for name in fixed if name in current}
    for name in ("uid", "deletionGracePeriodSeconds"):
        if name in current:
            metadata.setdefault(name, current[name])
    return new | {"metadata": metadata, "status": old.get("status")}


def _with_new_status(new: Object, old: Object) -> Object:
    """Return the stored object with the status of another."""
    given = {k: v for k, v in metadata_of(new).items() if k in _STATUS_METADATA}
    unchanged = {k: v for k, v in metadata_of(old).items() if k not in _STATUS_METADATA}
    prepared = _prepared(old | {"metadata": unchanged | given}, old)
    return prepared | {"status": new.get("status")}


def _takes_last_finalizer(new: Object, old: Object) -> bool:
    """Return whether an update takes the last finalizer from an object marked for deletion.

    Source: pkg/registry/generic/registry/store.go, ShouldDeleteDuringUpdate.
    """
    grace_s = json_fields.integer(metadata_of(old), "deletionGracePeriodSeconds")
    return is_terminating(old) and grace_s == 0 and not finalizers_of(new)


def _text(value: Object) -> bytes:
    """Return the bytes to store of a canonical object."""
    return dumps(with_resource_version(value, 0))


def _check_name(value: Object, name: str) -> None:
    """Source: k8s.io/apiserver pkg/endpoints/handlers/rest.go, checkName."""
    given = json_fields.text(metadata_of(value), "name")
    if not given:
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if given != name:
        raise errors.bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


async def _fitting(writing: Coroutine[object, object, StoredObject]) -> StoredObject:
    """Return what a write returns.

    Raises:
        ObjectError: It is too large.
    """
    try:
        return await writing
    except TooLarge as error:
        raise errors.too_large(str(error)) from None
