"""Reading objects as kube-apiserver lets them be read: one by name, or a list in pages.

Every read is linearizable. So a caller that takes an old state gets the newest, and one that
insists on an old state is told that it is no longer there.
Sources: k8s.io/apiserver pkg/registry/generic/registry/store.go (Get, ListPredicate) and
pkg/storage/etcd3/store.go (GetList).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube.objects import errors, field_errors
from apidiscovery_service.kube.objects.encoding import ListMeta
from apidiscovery_service.kube.objects.errors import Cause, Details, ObjectError
from apidiscovery_service.kube.objects.kinds import Kind, Object
from apidiscovery_service.kube.objects.selectors import Selection
from apidiscovery_service.storage_versions.collection import Collection, Stored, Unreadable
from apidiscovery_service.storage_versions.continuation import Continuation, state_of

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
_MAX_UINT64 = 2**64 - 1
_UINT64_DIGITS = 20


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a list is asked for; the texts are the parameters of the request as given.

    Attributes:
        selection: Which objects.
        limit: How many at most; 0 for all.
        continue_token: From the page before.
    """

    selection: Selection = field(default_factory=Selection)
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """Objects by name, as they were at one moment, and what the list says of itself."""

    items: tuple[Object, ...]
    metadata: ListMeta


class ObjectReads:
    """Reads the objects of a collection.

    Every method may raise StoreUnavailable and StoreRefused.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    @property
    def kind(self) -> Kind:
        """What the objects are."""
        return self._collection.kind

    async def get(self, name: str, resource_version: str = "") -> Object:
        """Return an object as it is now.

        Args:
            name: Which.
            resource_version: The least that the answer must be of, as a request says it.

        Raises:
            ObjectError: 404 when there is none, 400 for what is no resourceVersion, 504 for one
                that is still to come, 500 for what cannot be read.
        """
        least = parse_resource_version(resource_version)
        stored = await self._existing(name)
        if least > stored.revision:
            _, now = await self._collection.read_all()
            _check_reached(least, now)
        return stored.object

    async def list(self, options: ListOptions) -> Listed:
        """Return objects in order of their names.

        Raises:
            ObjectError: 422 and 400 for parameters that do not go together or are malformed, 410
                for a state that is no longer there, 504 for one that is still to come.
        """
        causes = _match_causes(options)
        if causes:
            raise errors.invalid_options("ListOptions", causes)
        given = parse_resource_version(options.resource_version)
        begun = _continuation(options, given)
        every, now = await self._collection.read_all()
        if begun is not None:
            return _rest(every, now, options, begun)
        _check_reached(given, now)
        if given < now and _wants_exactly(options, given):
            raise errors.expired(_EXPIRED)
        return _page(every, now, options, "")

    async def _read(self, name: str) -> Stored | None:
        try:
            return await self._collection.read(name)
        except Unreadable as error:
            raise errors.internal_error(str(error)) from None

    async def _existing(self, name: str) -> Stored:
        stored = await self._read(name)
        if stored is None:
            raise errors.not_found(self.kind, name)
        return stored


def parse_resource_version(text: str) -> int:
    """Return the revision that a parameter `resourceVersion` is; 0 of an empty one.

    Raises:
        ObjectError: It is none; 400.
    """
    try:
        return parse_uint(text) if text else 0
    except ValueError as error:
        cause = field_errors.invalid("resourceVersion", text, str(error))
        raise errors.bad_request(f"invalid resource version: {cause}") from None


def parse_uint(text: str) -> int:
    """Return an unsigned integer of 64 bits as Go reads it.

    Raises:
        ValueError: It is none; the text is Go's, strconv.ParseUint.
    """
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("0") or "0"
    if len(digits) > _UINT64_DIGITS or int(digits) > _MAX_UINT64:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(digits)


def too_large_resource_version(asked: int, now: int) -> ObjectError:
    """Return the error for a revision that is still to come.

    Source: k8s.io/apiserver pkg/storage/errors.go, NewTooLargeResourceVersionError.
    """
    what = "Too large resource version"
    return ObjectError(
        HTTPStatus.GATEWAY_TIMEOUT,
        "Timeout",
        f"Timeout: {what}: {asked}, current: {now}",
        Details(causes=(Cause("ResourceVersionTooLarge", what, ""),), retry_after_s=1),
    )


def _check_reached(least: int, now: int) -> None:
    if least > now:
        raise too_large_resource_version(least, now)


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
    """Tell whether no newer state will do; with a limit that is so unless it is said otherwise."""
    match = options.resource_version_match
    return bool(given) and (match == EXACT or (not match and options.limit > 0))


def _rest(every: Sequence[Stored], now: int, options: ListOptions, begun: Continuation) -> Listed:
    """Return the next page, if all objects are still those of which the first page was."""
    if begun.revision < 0:
        return _page(every, now, options, begun.start)
    if begun.revision != now and begun.state != state_of(every):
        latest = Continuation(-1, begun.start)
        raise errors.expired(_CONTINUE_EXPIRED, latest.encode())
    return _page(every, begun.revision, options, begun.start)


def _page(every: Sequence[Stored], revision: int, options: ListOptions, start: str) -> Listed:
    later = [stored for stored in every if stored.name >= start]
    meant = [stored for stored in later if options.selection.matches(stored.object)]
    page = meant[: options.limit] if options.limit > 0 else meant
    items = tuple(stored.object for stored in page)
    left = len(meant) - len(page)
    if not left:
        return Listed(items, ListMeta(str(revision)))
    token = Continuation(revision, page[-1].name + "\0", state_of(every)).encode()
    # Upstream cannot count what a selector would leave, and so it does not say it.
    remaining = left if options.selection.is_everything else None
    return Listed(items, ListMeta(str(revision), token, remaining))
