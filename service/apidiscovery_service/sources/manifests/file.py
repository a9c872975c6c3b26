"""Reading one manifest file, YAML or JSON, into declarations.

A file is split into documents as by kubectl, at lines that begin with `---`. Each document is JSON
if it begins like JSON, else YAML. Reading does not record positions; a document with an error is
read again to find the line.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Literal, TypeAlias, TypeGuard, cast

import orjson
import yaml
from apidiscovery_formats import manifest_text, yaml_text
from apidiscovery_formats.yaml_text import Budget, Unparsable

from apidiscovery_service.core.model import Offer
from apidiscovery_service.errors import InvalidDocument
from apidiscovery_service.sources.api_service import ApiService, read_api_service
from apidiscovery_service.sources.crds.model import CustomResourceDefinition
from apidiscovery_service.sources.crds.reading import read_applied_crd, read_crd
from apidiscovery_service.sources.declarations import Declared
from apidiscovery_service.sources.discovery_list import API_VERSIONS, KIND, read_list
from apidiscovery_service.sources.fields import InvalidField, Node, Path, path_text
from apidiscovery_service.sources.priorities import ordered_offers

MAX_FILE_BYTES = 64 * 1024 * 1024

# Enough to correct a file by. Finding the line of one takes as long as reading its document.
MAX_ERRORS = 100

# Longer text that begins like JSON is read as JSON only, and its errors have no lines: as YAML it
# takes a hundred times as long.
MAX_FLOW_CHARACTERS = 256 * 1024

_JSON_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)

DocumentKind: TypeAlias = Literal["groups", "crd", "apiservice"]
Content: TypeAlias = tuple[Offer, ...] | CustomResourceDefinition | ApiService

# Fields of metadata that this module uses and servers set.
_SET_BY_SERVERS = ("creationTimestamp", "deletionTimestamp", "managedFields")


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits for all texts of an untrusted request.

    Attributes:
        values: The number of values; those of a document are counted before they are created.
        located: The number of values in documents whose errors get a line; errors in other
            documents have the first line of the document.
    """

    values: Budget
    located: Budget


@dataclass(frozen=True, slots=True)
class _Type:
    """A type of object that is read besides discovery lists.

    Attributes:
        read: Reads an object that a server has accepted already.
        read_applied: Reads an object that is applied to this server.
    """

    kind: str
    api_version: str
    read: Callable[[Node], CustomResourceDefinition | ApiService]
    read_applied: Callable[[Node], CustomResourceDefinition | ApiService]

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"


_TYPES = (
    _Type("CustomResourceDefinition", "apiextensions.k8s.io/v1", read_crd, read_applied_crd),
    _Type("APIService", "apiregistration.k8s.io/v1", read_api_service, read_api_service),
)
_UNDERSTOOD = ", ".join(
    (
        f"{KIND} of {' or '.join(API_VERSIONS)}",
        *(f"{known.kind} of {known.api_version}" for known in _TYPES),
        "or a list of such",
    )
)


@dataclass(frozen=True, slots=True)
class Document:
    """An object in a file; a list of objects is as many documents.

    Attributes:
        number: The number of the document in the file, from 1.
        kind: Its kind.
        name: Its metadata.name; empty for most discovery lists, which need none.
        value: The object as a JSON value.
        content: The object as it was read.
    """

    number: int
    kind: DocumentKind
    name: str
    value: object
    content: Content


def read_manifest(path: FilePath) -> Declared:
    """Return the declarations of a manifest file, in its order.

    The schemas of CustomResourceDefinitions are not validated.

    Raises:
        InvalidDocument: The file cannot be read, is not YAML or JSON, or has anything but valid
            discovery lists, CustomResourceDefinitions and APIServices. The error has document, line
            and field, and the errors of all other documents.
    """
    return declared(_read(_text(path), str(path)))


def declared(documents: Iterable[Document]) -> Declared:
    """Return the declarations of documents, in their order."""
    offers: list[Offer] = []
    crds: list[CustomResourceDefinition] = []
    api_services: list[ApiService] = []
    for document in documents:
        content = document.content
        if isinstance(content, CustomResourceDefinition):
            crds.append(content)
        elif isinstance(content, ApiService):
            api_services.append(content)
        else:
            offers += content
    return Declared(tuple(offers), tuple(crds), tuple(api_services))


def read_documents(
    text: str, file: str, *, applied: bool = False, limits: TextLimits | None = None
) -> list[Document]:
    """Return the objects in a text, in its order.

    Args:
        text: YAML or JSON, one document or several.
        file: The name of the text in errors.
        applied: Whether the objects are applied to this server, which decides their status and sets
            some of the metadata itself. The text's are ignored then, as by kube-apiserver, and
            schemas of CustomResourceDefinitions have to be valid. Otherwise status and metadata
            count and have to be valid, and schemas are not validated.
        limits: Limits of an untrusted text.

    Raises:
        InvalidDocument: As `read_manifest`.
    """
    return list(_read(text, file, applied=applied, limits=limits))


def _read(
    text: str, file: str, *, applied: bool = False, limits: TextLimits | None = None
) -> Iterator[Document]:
    """Yield the objects in a text one by one; raise all errors at the end."""
    reader = _Reader(applied=applied)
    errors: list[InvalidDocument] = []
    value: object = None
    for part in manifest_text.documents(text.removeprefix("\ufeff")):
        try:
            value = parse(part.text, limits.values if limits else None)
            yield from reader.read(value, part.number)
        except InvalidField as error:
            errors += _placed(error, file, part, limits.located if limits else None)
        except Unparsable as error:
            errors.append(_invalid(file, str(error), part.number, part.line_of(error)))
        if len(errors) > MAX_ERRORS:
            more = _invalid(file, f"has more errors than the {MAX_ERRORS} that are shown")
            errors[MAX_ERRORS:] = [more]
            break
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]


class _Reader:
    """Reads the documents of one text, one after the other."""

    def __init__(self, *, applied: bool) -> None:
        self._applied = applied
        self._rank = 0
        # Document of each group-version, and of each object by kind and name.
        self._numbers: dict[tuple[str, str], int] = {}

    def read(self, value: object, number: int) -> Iterator[Document]:
        """Yield each object of a document.

        Raises:
            InvalidField: Fields are not valid, or declare something twice. It is raised after all
                valid objects, or after more errors than are shown.
        """
        wrong: list[InvalidField] = []
        for node, among in _objects(Node(value)):
            try:
                yield self._object(node, number, among)
            except InvalidField as error:
                wrong += (error, *error.others)
            if len(wrong) > MAX_ERRORS:
                break
        if wrong:
            raise InvalidField(wrong[0].path, str(wrong[0]), tuple(wrong[1:]))

    def _object(self, node: Node, number: int, among: _Type | None) -> Document:
        """Read an object; `among` is the type of the list that it is in."""
        node = _typed(node, among) if among else node
        kind, api_version = type_ = _type_of(node)
        if among and type_ != (among.kind, among.api_version):
            raise _not_understood(node, kind, api_version, among)
        for known in _TYPES:
            if type_ == (known.kind, known.api_version):
                content = (
                    known.read_applied(_as_applied(node)) if self._applied else known.read(node)
                )
                where = (*node.path, "metadata", "name")
                self._claim((known.kind, content.name), content.name, where, number)
                short: DocumentKind = "apiservice" if isinstance(content, ApiService) else "crd"
                return Document(number, short, content.name, node.value, content)
        if kind == KIND and api_version in API_VERSIONS:
            offers = self._groups(node, number)
            return Document(number, "groups", _name_of(node), node.value, offers)
        raise _not_understood(node, kind, api_version)

    def _groups(self, node: Node, number: int) -> tuple[Offer, ...]:
        groups = read_list(node)
        for place, (group, versions) in enumerate(groups):
            for version_place, version in enumerate(versions):
                name = "/".join(filter(None, (group, version.version)))
                where = ("items", place, "versions", version_place, "version")
                self._claim((KIND, name), name, (*node.path, *where), number)
        offers = ordered_offers(groups, self._rank)
        self._rank += len(groups)
        return tuple(offers)

    def _claim(self, key: tuple[str, str], name: str, where: Path, number: int) -> None:
        """Note the document that declares something; refuse a second declaration in the file."""
        if key in self._numbers:
            raise InvalidField(where, f"{name} is already in document {self._numbers[key]}")
        self._numbers[key] = number


def _type_of(node: Node) -> tuple[str, str]:
    fields = node.mapping()
    kind = fields["kind"].text() if "kind" in fields else ""
    return kind, fields["apiVersion"].text() if "apiVersion" in fields else ""


def _objects(node: Node) -> Iterator[tuple[Node, _Type | None]]:
    """Yield each object of a document, with the type of the typed list that it is in, if any."""
    type_ = _type_of(node)
    for known in _TYPES:
        if type_ == (known.list_kind, known.api_version):
            yield from ((item, known) for item in _items(node))
            return
    yield from ((one, None) for one in (_items(node) if type_ == ("List", "v1") else (node,)))


def _name_of(node: Node) -> str:
    fields = node.mapping()
    if "metadata" not in fields:
        return ""
    metadata = fields["metadata"].mapping()
    return metadata["name"].text() if "name" in metadata else ""


def _as_applied(node: Node) -> Node:
    """Return an object without the fields that its server sets.

    Source: k8s.io/apiextensions-apiserver pkg/registry/customresourcedefinition/strategy.go and
    k8s.io/kube-aggregator pkg/registry/apiservice/strategy.go: PrepareForCreate, PrepareForUpdate;
    k8s.io/apiserver pkg/registry/rest/meta.go:FillObjectMetaSystemFields.
    """
    fields = {name: value for name, value in _object_value(node).items() if name != "status"}
    if _is_object(metadata := fields.get("metadata")):
        fields["metadata"] = {k: v for k, v in metadata.items() if k not in _SET_BY_SERVERS}
    return Node(fields, node.path)


def _items(node: Node) -> tuple[Node, ...]:
    fields = node.mapping("kind", "apiVersion", "metadata", "items")
    return fields["items"].items(lambda item: item) if "items" in fields else ()


def _typed(item: Node, known: _Type) -> Node:
    """Return an item of a typed list with its type, which may be left out there."""
    given = item.mapping()
    kind = {} if "kind" in given else {"kind": known.kind}
    api_version = {} if "apiVersion" in given else {"apiVersion": known.api_version}
    if not kind and not api_version:
        return item
    return Node({**api_version, **kind, **_object_value(item)}, item.path)


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _object_value(node: Node) -> dict[str, object]:
    return node.value if _is_object(node.value) else {}


def _not_understood(
    node: Node, kind: str, api_version: str, among: _Type | None = None
) -> InvalidField:
    """Return the error of a type; `among` is the type of the list that it is in."""
    if (among and kind != among.kind) or kind not in (
        KIND,
        "List",
        *(name for t in _TYPES for name in (t.kind, t.list_kind)),
    ):
        return InvalidField((*node.path, "kind"), f"want {_UNDERSTOOD}, got {kind[:100]!r}")
    seen = f"{api_version[:100]!r} of {kind}"
    return InvalidField((*node.path, "apiVersion"), f"want {_UNDERSTOOD}, got {seen}")


def _invalid(file: str, message: str, document: int = 0, line: int = 0) -> InvalidDocument:
    return InvalidDocument(message, file=file, document=document, line=line)


def _text(path: FilePath) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise _invalid(str(path), f"larger than {MAX_FILE_BYTES >> 20} MiB")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _invalid(str(path), f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise _invalid(str(path), f"not UTF-8: {error.reason}", line=line) from None


def _placed(
    error: InvalidField, file: str, document: manifest_text.Text, budget: Budget | None
) -> list[InvalidDocument]:
    """Return the error of a field and of the further ones, with their lines."""
    shown = (error, *error.others)[: MAX_ERRORS + 1]
    lines = _lines(document.text, [one.path for one in shown], budget)
    return [
        InvalidDocument(
            str(one),
            file=file,
            document=document.number,
            line=document.first_line + line,
            field=path_text(one.path),
        )
        for one, line in zip(shown, lines, strict=True)
    ]


def _lines(text: str, paths: Sequence[Path], budget: Budget | None) -> list[int]:
    """Return the line of each field in a document, from 0; 0 where it is not known."""
    if manifest_text.is_like_json(text) and len(text) > MAX_FLOW_CHARACTERS:
        return [0] * len(paths)
    try:
        yaml_text.load(text, budget)
        return manifest_text.lines(text, paths)
    except (Unparsable, yaml.YAMLError, ValueError):
        # JSON that is not YAML, such as one with an escaped surrogate pair
        return [0] * len(paths)


def parse(text: str, budget: Budget | None) -> object:
    """Return the value of a document.

    Args:
        text: JSON or YAML.
        budget: The number of values it may have; None for trusted text.

    Raises:
        Unparsable: It is neither, has a duplicate key or too many values.
    """
    if not manifest_text.is_like_json(text):
        return yaml_text.load(text, budget)
    if budget is not None:
        _count_json(text, budget)
    try:
        value = cast("object", orjson.loads(text))
        json.loads(text, object_pairs_hook=_check_members)  # orjson keeps the last
    except orjson.JSONDecodeError as error:
        if len(text) <= MAX_FLOW_CHARACTERS:
            with suppress(Unparsable):  # YAML in flow style begins like JSON
                return yaml_text.load(text)
        raise Unparsable(f"no JSON: {error.msg}", error.lineno - 1) from None
    except RecursionError:
        raise Unparsable("nested too deeply") from None
    except Unparsable:
        if len(text) <= MAX_FLOW_CHARACTERS:
            _raise_with_line(text)
        raise
    return value


def _check_members(pairs: list[tuple[str, object]]) -> None:
    """Refuse duplicate keys; returns nothing, so that no second value of the text is built."""
    manifest_text.members(pairs)


def _raise_with_line(text: str) -> None:
    """Raise the error of JSON text as YAML, which most JSON is: it has a line."""
    try:
        yaml_text.load(text)
    except Unparsable as error:
        if error.line:
            raise


def _count_json(text: str, budget: Budget) -> None:
    """Take the values of a JSON text from a budget, before they are created.

    Each value but the first of an array or object follows a comma, each key precedes a colon. If
    there are too many such characters, those in strings are not counted, which takes longer.
    """
    count = 1 + _marks(text)
    budget.spend(count if count <= budget.left else 1 + _marks(_JSON_STRING.sub("", text)))


def _marks(text: str) -> int:
    return sum(map(text.count, ",:[{"))
