"""Get and list of objects, as kube-apiserver serves them.

Every read is linearizable: a request that accepts an old state gets the current one, and a request
that insists on an old state gets 410.
Sources: k8s.io/apiserver pkg/registry/generic/registry/store.go (Get, ListPredicate) and
pkg/storage/etcd3/store.go (GetList).
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import orjson
from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import errors, field_errors
from apidiscovery_service.kube.objects.encoding import ListMeta
from apidiscovery_service.kube.objects.errors import Cause, Details, ObjectError
from apidiscovery_service.kube.objects.kinds import Object, ObjectKind
from apidiscovery_service.kube.objects.selectors import Selection
from apidiscovery_service.storage_versions.collection import (
    Collection,
    StoredObject,
    Unreadable,
)

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"

_EXPIRED = "The resourceVersion for the provided list is too old."
# Source: pkg/storage/etcd3/errors.go, inconsistentContinue.
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_VERSION = "meta.k8s.io/v1"
_INVALID = "continue key is not valid"
_MAX_UINT64 = 2**64 - 1
_UINT64_DIGITS = 20


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a list request; texts as in the request.

    Attributes:
        selection: Field and label selectors.
        limit: Maximum number of objects; 0 for all.
        continue_token: From the page before.
    """

    selection: Selection = field(default_factory=Selection)
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


@dataclass(frozen=True, slots=True)
class ListedObjects:
    """Objects in order of their names, as they were at one moment, and the metadata of the list."""

    items: tuple[Object, ...]
    metadata: ListMeta


class ObjectReads:
    """Reads the objects of a collection.

    Every method may raise StoreUnavailable and StoreRefused.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    @property
    def kind(self) -> ObjectKind:
        """The kind of the objects."""
        return self._collection.kind

    async def get(self, name: str, resource_version: str = "") -> Object:
        """Return an object as it is now.

        Args:
            name: Its name.
            resource_version: The lowest acceptable revision, as in the request.

        Raises:
            ObjectError: 404 when there is none, 400 for a malformed resourceVersion, 504 for a
                future one, 500 for an unreadable object.
        """
        lowest = parse_resource_version(resource_version)
        stored = await self._existing(name)
        if lowest > stored.revision:
            _, now = await self._collection.read_all()
            _check_reached(lowest, now)
        return stored.object

    async def list(self, options: ListOptions) -> ListedObjects:
        """Return objects in order of their names.

        Raises:
            ObjectError: 422 and 400 for malformed or conflicting options, 410 for a state that is
                no longer available, 504 for a future one.
        """
        causes = _match_causes(options)
        if causes:
            raise errors.invalid_options("ListOptions", causes)
        given = parse_resource_version(options.resource_version)
        begun = _continuation(options, given)
        objects, now = await self._collection.read_all()
        if begun is not None:
            return _next_page(objects, now, options, begun)
        _check_reached(given, now)
        if given < now and _wants_exactly(options, given):
            raise errors.expired(_EXPIRED)
        return _page(objects, now, options, "")

    async def _read(self, name: str) -> StoredObject | None:
        try:
            return await self._collection.read(name)
        except Unreadable as error:
            raise errors.internal_error(str(error)) from None

    async def _existing(self, name: str) -> StoredObject:
        stored = await self._read(name)
        if stored is None:
            raise errors.not_found(self.kind, name)
        return stored


@dataclass(frozen=True, slots=True)
class Continuation:
    """A position in a list that is read in pages: the value of `continue`.

    The format is upstream's, k8s.io/apiserver pkg/storage/continue.go, with a digest of all objects
    added: the next page shows the same state if no object has changed since, whatever else has been
    written to the store.

    Attributes:
        revision: Revision of the store at the first page; negative for the current one.
        start: The first name of the page.
        state: Digest of all objects at the first page, see `state_of`.
    """

    revision: int
    start: str
    state: str = ""

    def encode(self) -> str:
        """Return it as opaque text that needs no escaping in a URL."""
        fields = {
            "v": _VERSION,
            "rv": self.revision,
            "start": self.start,
            "state": self.state,
        }
        return base64.urlsafe_b64encode(orjson.dumps(fields)).rstrip(b"=").decode()

    @classmethod
    def decode(cls, token: str) -> "Continuation":
        """Return the position of a token.

        Raises:
            ValueError: The token is malformed; the text is Kubernetes'.
        """
        if "=" in token:
            raise ValueError(f"{_INVALID}: it is padded")
        try:
            text = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
            fields: JSONValue = orjson.loads(text)
        except (ValueError, binascii.Error) as error:
            raise ValueError(f"{_INVALID}: {error}") from None
        match fields:
            case {"v": version} if version != _VERSION:
                raise ValueError(
                    f"{_INVALID}: server does not recognize this encoded version {version}"
                )
            case {"v": _, "rv": bool()}:
                raise ValueError(f"{_INVALID}: rv is not a number")
            case {"v": _, "rv": int(revision), "start": str(start), **rest} if revision:
                if not start:
                    raise ValueError(f"{_INVALID}: encoded start key empty (version {_VERSION})")
                if "/" in start or start in (".", ".."):
                    raise ValueError(f"{_INVALID}: {start}")
                return cls(revision, start, str(rest.get("state", "")))
            case _:
                raise ValueError(
                    f"{_INVALID}: incorrect encoded start resourceVersion (version {_VERSION})"
                )


def state_of(objects: Iterable[StoredObject]) -> str:
    """Return a digest that changes when any object is written or removed."""
    digest = hashlib.blake2b(digest_size=16)
    for stored in objects:
        digest.update(f"{stored.name}\0{stored.revision}\0".encode())
    return digest.hexdigest()


def parse_resource_version(text: str) -> int:
    """Return the revision of a parameter `resourceVersion`; 0 if it is empty.

    Raises:
        ObjectError: 400; it is malformed.
    """
    try:
        return parse_uint(text) if text else 0
    except ValueError as error:
        cause = field_errors.invalid("resourceVersion", text, str(error))
        raise errors.bad_request(f"invalid resource version: {cause}") from None


def parse_uint(text: str) -> int:
    """Return an unsigned 64-bit integer, parsed as Go does.

    Raises:
        ValueError: It is malformed; the text is that of Go's strconv.ParseUint.
    """
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("0") or "0"
    if len(digits) > _UINT64_DIGITS or int(digits) > _MAX_UINT64:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(digits)


def too_large_resource_version(requested: int, now: int) -> ObjectError:
    """Return the error for a future revision.

    Source: k8s.io/apiserver pkg/storage/errors.go, NewTooLargeResourceVersionError.
    """
    what = "Too large resource version"
    return ObjectError(
        HTTPStatus.GATEWAY_TIMEOUT,
        "Timeout",
        f"Timeout: {what}: {requested}, current: {now}",
        Details(causes=(Cause("ResourceVersionTooLarge", what, ""),), retry_after_s=1),
    )


def _check_reached(lowest: int, now: int) -> None:
    if lowest > now:
        raise too_large_resource_version(lowest, now)


def _match_causes(options: ListOptions) -> list[Cause]:
    """Source: k8s.io/apimachinery pkg/apis/meta/internalversion/validation, ValidateListOptions."""
    match, path = options.resource_version_match, "resourceVersionMatch"
    causes: list[Cause] = []
    if not match:
        return causes
    if not options.resource_version:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(field_errors.forbidden(path, detail))
    if options.continue_token:
        detail = "resourceVersionMatch is forbidden when continue is provided"
        causes.append(field_errors.forbidden(path, detail))
    if match not in (EXACT, NOT_OLDER_THAN):
        causes.append(field_errors.not_supported(path, match, [EXACT, NOT_OLDER_THAN, ""]))
    if match == EXACT and options.resource_version == "0":
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(field_errors.forbidden(path, detail))
    return causes


def _continuation(options: ListOptions, given: int) -> Continuation | None:
    if not options.continue_token:
        return None
    try:
        begun = Continuation.decode(options.continue_token)
    except ValueError as error:
        raise errors.bad_request(f"invalid continue token: {error}") from None
    if given:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    return begun


def _wants_exactly(options: ListOptions, given: int) -> bool:
    """Return whether only that revision will do, the default of requests with a limit."""
    match = options.resource_version_match
    return bool(given) and (match == EXACT or (not match and options.limit > 0))


def _next_page(
    objects: Sequence[StoredObject], now: int, options: ListOptions, begun: Continuation
) -> ListedObjects:
    """Return the next page.

    Raises:
        ObjectError: 410; objects have changed since the first page.
    """
    if begun.revision < 0:
        return _page(objects, now, options, begun.start)
    if begun.revision != now and begun.state != state_of(objects):
        latest = Continuation(-1, begun.start)
        raise errors.expired(_CONTINUE_EXPIRED, latest.encode())
    return _page(objects, begun.revision, options, begun.start)


def _page(
    objects: Sequence[StoredObject], revision: int, options: ListOptions, start: str
) -> ListedObjects:
    later = [stored for stored in objects if stored.name >= start]
    selected = [stored for stored in later if options.selection.matches(stored.object)]
    page = selected[: options.limit] if options.limit > 0 else selected
    items = tuple(stored.object for stored in page)
    left = len(selected) - len(page)
    if not left:
        return ListedObjects(items, ListMeta(str(revision)))
    token = Continuation(revision, page[-1].name + "\0", state_of(objects)).encode()
    # As upstream, which cannot count what a selector leaves.
    remaining = left if options.selection.is_everything else None
    return ListedObjects(items, ListMeta(str(revision), token, remaining))
