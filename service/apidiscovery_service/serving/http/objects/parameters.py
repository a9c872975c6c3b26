"""Parameters in the query of a request.

Values are converted as Go converts url.Values, and then validated. Sources:
k8s.io/apimachinery pkg/runtime/conversion.go, pkg/apis/meta/v1/validation/validation.go and
pkg/apis/meta/internalversion/validation/validation.go.
"""

from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus

from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import field_errors, selectors
from apidiscovery_service.kube.objects.errors import (
    Cause,
    Details,
    ObjectError,
    bad_request,
    group_resource,
    invalid_options,
)
from apidiscovery_service.kube.objects.kinds import Object, ObjectKind
from apidiscovery_service.kube.objects.selectors import (
    NAME,
    NAMESPACE,
    FieldRequirement,
    FieldSelector,
    Selection,
)
from apidiscovery_service.kube.objects.tables import IncludeObject
from apidiscovery_service.serving.http.messages import Request
from apidiscovery_service.serving.http.objects.routes import ObjectRoute
from apidiscovery_service.storage_versions.object_reads import (
    NOT_OLDER_THAN,
    ListOptions,
    parse_uint,
)

_INT64_MAX = 2**63 - 1
_FIELD_MANAGER_MAX = 128

ALL = "All"
_PROPAGATIONS = ("Foreground", "Background", "Orphan")


class FieldValidation(Enum):
    """How unknown and duplicate fields are treated."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


@dataclass(frozen=True, slots=True)
class ListParameters:
    """Parameters of a list or a watch.

    Attributes:
        selection: The selectors.
        resource_version: As sent; empty for the current state.
        match: `Exact` or `NotOlderThan`; empty without a value.
        limit: Objects at most; 0 for all.
        continue_token: Token of the earlier page; empty for the first.
        watch: Whether it is a watch.
        bookmarks: Whether the client understands BOOKMARK.
        initial_events: Whether a watch begins with the current objects; None without a value.
        timeout_s: Seconds after which a watch ends; 0 for the server's choice.
    """

    selection: Selection
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout_s: int = 0

    def as_list(self) -> ListOptions:
        """Return the options of a list."""
        # Upstream answers version 0 from its cache, which has no pages.
        return ListOptions(
            self.selection,
            0 if self.resource_version == "0" else self.limit,
            self.continue_token,
            self.resource_version,
            self.match,
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Parameters of a write.

    Attributes:
        dry_run: Whether nothing is written, only answered.
        field_validation: How unknown and duplicate fields are treated.
    """

    dry_run: bool = False
    field_validation: FieldValidation = FieldValidation.WARN


class Query:
    """Typed access to the parameters of a request."""

    def __init__(self, request: Request) -> None:
        self._values = request.parameters()

    def texts(self, name: str) -> list[str]:
        """Return all values."""
        return self._values.get(name, [])

    def text(self, name: str) -> str:
        """Return the first value; empty without one."""
        return self._values.get(name, [""])[0]

    def flag(self, name: str) -> bool | None:
        """Return a boolean; None without a value. All but `0` and `false` is true."""
        values = self._values.get(name)
        return None if not values else values[0].lower() not in ("0", "false")

    def integer(self, name: str) -> int | None:
        """Return an integer; None without a value.

        Raises:
            ObjectError: It is not an integer of 64 bits; 400.
        """
        values = self._values.get(name)
        return _int64(values[0]) if values else None


def _int64(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    number = int(text[:32])
    if len(text) > 32 or not -_INT64_MAX - 1 <= number <= _INT64_MAX:  # noqa: PLR2004
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return number


def watch_revision(kind: ObjectKind, text: str) -> int:
    """Return the resourceVersion after which a watch begins.

    Raises:
        ObjectError: It is not a number; 422, under the resource's name as upstream.
    """
    try:
        return parse_uint(text) if text else 0
    except ValueError as error:
        cause = field_errors.invalid("resourceVersion", text, str(error))
        message = f'{group_resource(kind)} "" is invalid: {cause}'
        details = Details("", kind.group, kind.plural, causes=(cause,))
        raise ObjectError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, details) from None


def list_parameters(request: Request, target: ObjectRoute) -> ListParameters:
    """Return the parameters of a list, a watch or a deletion of a collection.

    Raises:
        ObjectError: A value is malformed, 400, or invalid, 422.
    """
    query = Query(request)
    options = ListParameters(
        selectors.parse(query.text("labelSelector"), query.text("fieldSelector")),
        query.text("resourceVersion"),
        query.text("resourceVersionMatch"),
        max(query.integer("limit") or 0, 0),
        query.text("continue"),
        watch=bool(query.flag("watch")),
        bookmarks=bool(query.flag("allowWatchBookmarks")),
        initial_events=query.flag("sendInitialEvents"),
        timeout_s=query.integer("timeoutSeconds") or 0,
    )
    causes = _watch_causes(options) if options.watch else _list_causes(options)
    if causes:
        raise invalid_options("ListOptions", causes)
    return replace(options, selection=_within(options.selection, target))


def _within(selection: Selection, target: ObjectRoute) -> Selection:
    """Return a selection restricted to the name and namespace of a path.

    Raises:
        ObjectError: It selects another name; 400.
    """
    asked = selection.fields.requirements
    if target.name and asked and selection.name != target.name:
        raise bad_request("fieldSelector metadata.name doesn't match requested name")
    of_path = ((NAME, target.name), (NAMESPACE, target.namespace))
    more = tuple(FieldRequirement(field, value) for field, value in of_path if value)
    return Selection(selection.labels, FieldSelector((*asked, *more)))


def _list_causes(options: ListParameters) -> list[Cause]:
    if options.initial_events is None:
        return []
    return [field_errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")]


def _watch_causes(options: ListParameters) -> list[Cause]:
    causes: list[Cause] = []
    path, match = "resourceVersionMatch", options.match
    if options.initial_events is not None and match != NOT_OLDER_THAN:
        why = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
        causes.append(field_errors.forbidden(path, why))
    if match:
        if options.initial_events is None:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            causes.append(field_errors.forbidden(path, why))
        if match != NOT_OLDER_THAN:
            causes.append(field_errors.not_supported(path, match, (NOT_OLDER_THAN,)))
        if options.continue_token:
            why = "resourceVersionMatch is forbidden when continue is provided"
            causes.append(field_errors.forbidden(path, why))
    return causes


def write_options(request: Request, kind: str) -> WriteOptions:
    """Return the parameters of a write.

    Args:
        request: The request.
        kind: `CreateOptions`, `UpdateOptions` or `PatchOptions`, for the error.

    Raises:
        ObjectError: A value is invalid; 422.
    """
    query = Query(request)
    validation = query.text("fieldValidation")
    causes: list[Cause] = []
    if kind == "PatchOptions" and query.flag("force") is not None:
        causes.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    causes += _manager_causes(query.text("fieldManager"))
    causes += _dry_run_causes(query.texts("dryRun"))
    known = [each.value for each in FieldValidation]
    if validation and validation not in known:
        known = sorted(["", *known])
        causes.append(field_errors.not_supported("fieldValidation", validation, known))
    if causes:
        raise invalid_options(kind, causes)
    return WriteOptions(
        bool(query.texts("dryRun")),
        FieldValidation(validation) if validation else FieldValidation.WARN,
    )


def _manager_causes(manager: str) -> list[Cause]:
    causes: list[Cause] = []
    if len(manager.encode()) > _FIELD_MANAGER_MAX:
        causes.append(field_errors.too_long("fieldManager", _FIELD_MANAGER_MAX))
    for place, character in enumerate(manager):
        if not character.isprintable():
            at = len(manager[:place].encode())
            why = f"invalid character U+{ord(character):04X} (at position {at})"
            causes.append(field_errors.invalid("fieldManager", manager, why))
    return causes


def _dry_run_causes(values: list[str]) -> list[Cause]:
    if all(value == ALL for value in values):
        return []
    given: list[JSONValue] = [*values]
    return [field_errors.not_supported("dryRun", given, (ALL,))]


def delete_options(request: Request) -> Object:
    """Return the DeleteOptions in a query, for a request without a body.

    Raises:
        ObjectError: A number is malformed; 400.
    """
    query = Query(request)
    options: Object = {}
    seconds = query.integer("gracePeriodSeconds")
    if seconds is not None:
        options["gracePeriodSeconds"] = seconds
    orphan = query.flag("orphanDependents")
    if orphan is not None:
        options["orphanDependents"] = orphan
    if query.texts("propagationPolicy"):
        options["propagationPolicy"] = query.text("propagationPolicy")
    if query.texts("dryRun"):
        options["dryRun"] = [*query.texts("dryRun")]
    return options


def check_delete_options(options: Object) -> None:
    """Validate DeleteOptions.

    Raises:
        ObjectError: A value is invalid; 422.
    """
    causes: list[Cause] = []
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(field_errors.invalid("propagationPolicy", policy, why))
    if policy is not None and policy not in _PROPAGATIONS:
        known = (*_PROPAGATIONS, "nil")
        causes.append(field_errors.not_supported("propagationPolicy", policy, known))
    dry_run = options.get("dryRun")
    if isinstance(dry_run, list):
        causes += _dry_run_causes([str(value) for value in dry_run])
    if causes:
        raise invalid_options("DeleteOptions", causes)


def include_object(request: Request) -> IncludeObject:
    """Return what a Table includes of each object.

    Raises:
        ObjectError: The value is unknown; 400.
    """
    given = Query(request).text("includeObject")
    if not given:
        return IncludeObject.METADATA
    try:
        return IncludeObject(given)
    except ValueError:
        why = "must be 'Metadata', 'Object', 'None', or empty"
        wrong = field_errors.invalid("includeObject", given, why)
        raise bad_request(f"Unable to convert to Table as requested: {wrong}") from None
