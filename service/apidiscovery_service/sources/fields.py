"""Fields of Kubernetes objects, and all errors in them.

Errors have the words of Kubernetes (k8s.io/apimachinery pkg/util/validation/field/errors.go), which
people know and search for.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeGuard, TypeVar, cast

import orjson

from apidiscovery_service.kube import field_messages
from apidiscovery_service.kube.objects.formats import dns1035_label, dns_subdomain
from apidiscovery_service.openapi.crd.structural import field_path

# Errors of one object, more than are shown; a large document may have one in each value.
_MAX_FINDINGS = 1000

_MAX_PORT = 65535
_INT32 = 2**31
# The depth to which orjson writes nested objects and arrays, and its message beyond it.
_MAX_DEPTH = 254
_TOO_DEEP = "Recursion limit reached"

# The field of a CustomResourceDefinition within which paths are written with brackets.
_SCHEMA = "openAPIV3Schema"

# Longer integers are not shown; Python does not write those of some thousand digits at all.
_MAX_SHOWN_BITS = 64
_SHOWN = 200  # characters of a value that a message repeats: a screen line or two

Path: TypeAlias = tuple[str | int, ...]
T = TypeVar("T")


class InvalidField(Exception):
    """A field of a document is not valid.

    Attributes:
        path: Keys and indices from the document to the field.
        others: The errors of further fields.
    """

    def __init__(self, path: Path, message: str, others: "tuple[InvalidField, ...]" = ()) -> None:
        super().__init__(message)
        self.path = path
        self.others = others


def path_text(path: Path) -> str:
    """Write a path as Kubernetes' validation errors do: `items[0].versions[1].version`.

    Within schemas, names of their authors are in brackets: `...openAPIV3Schema.properties[spec]`.
    """
    start = path.index(_SCHEMA) if _SCHEMA in path else len(path)
    text = ""
    for step in path[:start]:
        if isinstance(step, int) or "." in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return ".".join(filter(None, (text, field_path(path[start:]))))


def _is_mapping(value: object) -> TypeGuard[dict[object, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


class Node:
    """A value in a document, and its path."""

    def __init__(self, value: object, path: Path = ()) -> None:
        self.value = value
        self.path = path

    def fail(self, message: str) -> InvalidField:
        return InvalidField(self.path, message)

    def mapping(self, *known: str) -> "Mapping[str, Node]":
        """Return the fields that are set; null is the same as absent, as in Go.

        Args:
            known: The names that may occur; any name if there are none.

        Raises:
            InvalidField: It is not an object, or has an unknown field.
        """
        fields = self.value
        if not _is_mapping(fields):
            raise self.fail(f"want an object, got {self.seen()}")
        for name in fields:
            if not isinstance(name, str):
                raise self.fail(f"want field names, got {name!r}")
            if known and name not in known:
                raise InvalidField(
                    (*self.path, name), f"unknown field; known here are {', '.join(known)}"
                )
        return {
            cast("str", name): Node(value, (*self.path, cast("str", name)))
            for name, value in fields.items()
            if value is not None
        }

    def items(self, read: "Callable[[Node], T]") -> tuple[T, ...]:
        """Return the result of `read` for each element of a list.

        Raises:
            InvalidField: It is not a list.
        """
        elements = self.value
        if not _is_list(elements):
            raise self.fail(f"want a list, got {self.seen()}")
        return tuple(read(Node(value, (*self.path, i))) for i, value in enumerate(elements))

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fail(f"want a string, got {self.seen()}")
        return self.value

    def seen(self) -> str:
        """Return the type of the value, and a scalar's value, for an error."""
        for kind, name in ((dict, "an object"), (list, "a list"), (str, "a string")):
            if isinstance(self.value, kind):
                return name
        if self.value is None:
            return "null"
        if isinstance(self.value, int) and self.value.bit_length() > _MAX_SHOWN_BITS:
            return f"int of {self.value.bit_length()} bits"
        return f"{type(self.value).__name__} {self.value!r}"


class Findings:
    """All errors of an object."""

    def __init__(self) -> None:
        self._found: list[InvalidField] = []
        self._unreadable: set[Path] = set()

    @property
    def count(self) -> int:
        """The number of errors so far."""
        return len(self._found)

    def add(self, path: Path, message: str) -> None:
        """Add an error; a field of the wrong type has no further errors."""
        if path not in self._unreadable and len(self._found) < _MAX_FINDINGS:
            self._found.append(InvalidField(path, message))

    def unreadable(self, error: InvalidField) -> None:
        """Add a field of the wrong type."""
        self.add(error.path, str(error))
        self._unreadable.add(error.path)

    def required(self, path: Path, detail: str = "") -> None:
        self.add(path, field_messages.required(detail))

    def invalid(self, path: Path, value: object, detail: str) -> None:
        self.add(path, field_messages.invalid(value, detail, _SHOWN))

    def invalid_hidden(self, path: Path, detail: str) -> None:
        self.add(path, field_messages.invalid_hidden(detail))

    def unsupported(self, path: Path, value: str, supported: Iterable[str]) -> None:
        self.add(path, field_messages.unsupported(value, supported, _SHOWN))

    def forbidden(self, path: Path, detail: str) -> None:
        self.add(path, field_messages.forbidden(detail))

    def raise_any(self) -> None:
        """Raise the first error with the others.

        Raises:
            InvalidField: There is an error.
        """
        if self._found:
            first, *others = self._found
            raise InvalidField(first.path, str(first), tuple(others))


class Fields:
    """The fields of an object.

    A field that is absent, null or of the wrong type reads as empty, as in Go; the wrong type is an
    error.

    Attributes:
        path: The path of the object.
        value: The object, or the value in its place.
        findings: The errors, here and in enclosing objects.
    """

    def __init__(self, node: Node, findings: Findings, known: tuple[str, ...] = ()) -> None:
        self.path = node.path
        self.value = node.value
        self.findings = findings
        self._nodes = self._read(node, known)

    def _read(self, node: Node, known: tuple[str, ...]) -> Mapping[str, Node]:
        try:
            nodes = node.mapping()
        except InvalidField as error:
            self.findings.unreadable(error)
            return {}
        if known:
            for name in nodes:
                if name not in known:
                    message = f"unknown field; known here are {', '.join(known)}"
                    self.findings.add((*node.path, name), message)
        return nodes

    def at(self, *names: str | int) -> Path:
        """Return the path of a field."""
        return (*self.path, *names)

    def __contains__(self, name: str) -> bool:
        """Return whether a field is set."""
        return name in self._nodes

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def text(self, name: str) -> str:
        node = self._nodes.get(name)
        if node is None:
            return ""
        if isinstance(node.value, str):
            return node.value
        self._wrong(node, "a string")
        return ""

    def texts(self, name: str) -> tuple[str, ...]:
        texts: list[str] = []
        for node in self._items(name):
            if isinstance(node.value, str):
                texts.append(node.value)
            else:
                self._wrong(node, "a string")
        return tuple(texts)

    def flag(self, name: str) -> bool:
        node = self._nodes.get(name)
        if node is None:
            return False
        if not isinstance(node.value, bool):
            self._wrong(node, "true or false")
        return node.value is True

    def integer(self, name: str) -> int | None:
        """Return an int32; None if it is absent."""
        node = self._nodes.get(name)
        if node is None:
            return None
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int) or not -_INT32 <= value < _INT32:
            self._wrong(node, "an integer of 32 bits")
            return None
        return value

    def object(self, name: str, *known: str) -> "Fields | None":
        """Return the fields of an object; None if it is absent."""
        node = self._nodes.get(name)
        return None if node is None else Fields(node, self.findings, known)

    def required_object(self, name: str, *known: str) -> "Fields":
        """Return the fields of an object; its absence is an error."""
        if name not in self._nodes:
            self.findings.required(self.at(name))
        return Fields(self._nodes.get(name, Node({}, self.at(name))), self.findings, known)

    def objects(self, name: str, *known: str) -> "tuple[Fields, ...]":
        """Return the fields of each object of a list."""
        return tuple(Fields(node, self.findings, known) for node in self._items(name))

    def _items(self, name: str) -> tuple[Node, ...]:
        node = self._nodes.get(name)
        if node is None:
            return ()
        try:
            return node.items(lambda item: item)
        except InvalidField as error:
            self.findings.unreadable(error)
            return ()

    def _wrong(self, node: Node, wanted: str) -> None:
        self.findings.unreadable(node.fail(f"want {wanted}, got {node.seen()}"))


def label_1035_errors(text: str) -> list[str]:
    """Return the reasons why a text is not a label of RFC 1035."""
    return dns1035_label(text, "characters")


def subdomain_errors(text: str) -> list[str]:
    """Return the reasons why a text is not a subdomain of RFC 1123."""
    return dns_subdomain(text, "characters")


def port_errors(port: int) -> list[str]:
    """Return the reasons why a number is not a port."""
    return [] if 1 <= port <= _MAX_PORT else [f"must be between 1 and {_MAX_PORT}, inclusive"]


def object_json(value: object, path: Path) -> bytes:
    """Return an object as compact JSON; keys keep their order and numbers their value.

    Raises:
        InvalidField: A value has no form in JSON, or is nested too deeply.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # a key that is not a string, as YAML allows
        pass
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        if str(error) == _TOO_DEEP:
            message = f"is nested more than {_MAX_DEPTH} levels deep"
            raise InvalidField(path, message) from None
        raise InvalidField(path, f"cannot be written as JSON: {error}") from None


def json_form(value: object, path: Path) -> tuple[object, bytes]:
    """Return a value whose keys are strings, as `object_json` writes them, and that text.

    Raises:
        InvalidField: As `object_json`.
    """
    try:
        return value, orjson.dumps(value)
    except TypeError:
        text = object_json(value, path)
        return orjson.loads(text), text
