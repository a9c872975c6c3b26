"""Reading the manifests of a request: all of them are valid, or none is applied."""

from collections.abc import Iterator, Sequence

from apidiscovery_formats.json_values import as_object
from apidiscovery_formats.yaml_text import Budget

from apidiscovery_service.errors import FieldViolation, InvalidDocument, InvalidFields
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.sources.crds.model import CustomResourceDefinition
from apidiscovery_service.sources.manifests.file import Document, TextLimits, read_documents
from apidiscovery_service.sources.registrations import published
from apidiscovery_service.sources.registrations.record import RegistrationKind
from apidiscovery_service.sources.registrations.requests import (
    Application,
    LimitExceeded,
    Manifest,
    wrong_name,
)
from apidiscovery_service.sources.registrations.writes import Wanted

MAX_DOCUMENTS = 10_000

# Keys and values in all documents of a request. 8 MB of Kubernetes' own discovery have no more, and
# take 2 s as YAML; 8 MB of the shortest values would take 11 s and a gigabyte of memory.
MAX_VALUES = 1_000_000

# Values in documents whose errors get a line: finding it takes three times as long as reading.
_MAX_LOCATED = 200_000

_KINDS = {
    "groups": RegistrationKind.GROUPS,
    "crd": RegistrationKind.CRD,
    "apiservice": RegistrationKind.API_SERVICE,
}


class _Reader:
    """Reads the manifests of one request.

    Attributes:
        wanted: The registrations so far, by kind and name, in order.
        violations: The errors so far.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._limits = TextLimits(Budget(MAX_VALUES), Budget(_MAX_LOCATED))
        self._revisions: dict[tuple[RegistrationKind, str], list[int]] = {}
        for reference in application.expected:
            if reference.revision is not None:
                key = (reference.kind, reference.name)
                self._revisions.setdefault(key, []).append(reference.revision)
        self.wanted: dict[tuple[RegistrationKind, str], Wanted] = {}
        self.violations: list[FieldViolation] = []

    def refuse(self, field: str, message: str) -> None:
        """Note an error of a field."""
        self.violations.append(FieldViolation(field, message))

    def read(self, place: int, manifest: Manifest) -> None:
        """Read one manifest."""
        field = f"manifests[{place}]"
        try:
            text = manifest.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            self.refuse(f"{field}.content", f"{manifest.file or field}:{line}: not UTF-8")
            return
        try:
            called = manifest.file or field
            documents = read_documents(text, called, applied=True, limits=self._limits)
        except InvalidDocument as error:
            self.violations += _violations(field, error)
            return
        lists = 0
        for document in documents:
            lists += document.kind == "groups"
            self._take(field, manifest, document, lists)

    def _take(self, field: str, manifest: Manifest, document: Document, lists: int) -> None:
        """Take a document that is valid by itself."""
        kind = _KINDS[document.kind]
        where = f"{field}.documents[{document.number - 1}]"
        name, name_field = document.name, f"{where}.metadata.name"
        if not name:
            name, name_field = _list_name(manifest.list_name, lists), f"{field}.list_name"
        if kind is RegistrationKind.GROUPS and (wrong := wrong_name(name)):
            self.refuse(name_field, f"for the APIGroupDiscoveryList: {wrong}")
            return
        if (kind, name) in self.wanted:
            other = self.wanted[kind, name].field
            self.refuse(name_field, f"{kind}/{name} is already in {other}")
            return
        expected = (
            *self._revisions.get((kind, name), ()),
            *self._resource_version(where, document),
        )
        crd = document.content if isinstance(document.content, CustomResourceDefinition) else None
        content = _content(kind, document)
        self.wanted[kind, name] = Wanted(kind, name, where, content, expected, crd)

    def _resource_version(self, where: str, document: Document) -> tuple[int, ...]:
        text = metadata_of(as_object(document.value)).get("resourceVersion")
        if text in (None, ""):
            return ()
        if isinstance(text, str) and text.isascii() and text.isdigit():
            return (int(text),)
        field = f"{where}.metadata.resourceVersion"
        self.refuse(field, f"want the revision of a registration, got {text!r}")
        return ()

    def check_expected(self) -> None:
        """Note expected revisions of what is not in the request."""
        for place, reference in enumerate(self._application.expected):
            if (reference.kind, reference.name) not in self.wanted:
                message = f"no document of the request is {reference.kind}/{reference.name}"
                self.refuse(f"expected[{place}]", message)


def _content(kind: RegistrationKind, document: Document) -> JSONValue:
    value = as_object(document.value)
    return published.to_json(published.of_list(value)) if kind is RegistrationKind.GROUPS else value


def _list_name(name: str, number: int) -> str:
    return f"{name}-{number}" if name and number > 1 else name


def _violations(field: str, error: InvalidDocument) -> Iterator[FieldViolation]:
    """Yield the errors of a manifest."""
    where = f"{field}.documents[{error.document - 1}]" if error.document else f"{field}.content"
    place = f"{error.file}:{error.line}" if error.line else error.file
    path = f"{where}.{error.field}" if error.field else where
    yield FieldViolation(path, f"{place}: {error.args[0]}")
    for other in error.others:
        yield from _violations(field, other)


def read(application: Application) -> Sequence[Wanted]:
    """Return the registrations that a request wants, in order of the documents.

    Raises:
        InvalidFields: Documents are not valid, or two are the same registration.
        LimitExceeded: There are too many documents.
    """
    # Before anything is parsed, which takes longer.
    separators = sum(m.content.count(b"\n---") for m in application.manifests)
    if max(separators, len(application.manifests)) > MAX_DOCUMENTS:
        raise _too_many()
    reader = _Reader(application)
    for place, manifest in enumerate(application.manifests):
        reader.read(place, manifest)
        if len(reader.wanted) > MAX_DOCUMENTS:
            raise _too_many()
    if not reader.violations:
        reader.check_expected()
    if reader.violations:
        raise InvalidFields(*_limited(reader.violations))
    return tuple(reader.wanted.values())


def _limited(violations: Sequence[FieldViolation]) -> Sequence[FieldViolation]:
    """Return the first violations; the last one says if there are more."""
    if len(violations) <= published.MAX_VIOLATIONS:
        return violations
    shown = published.MAX_VIOLATIONS - 1
    more = f"have more errors than the {shown} that are shown"
    return (*violations[:shown], FieldViolation("manifests", more))


def _too_many() -> LimitExceeded:
    return LimitExceeded(f"a request may have {MAX_DOCUMENTS} documents at most")
