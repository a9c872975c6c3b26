"""Fields of Kubernetes objects, read to the end with all that is wrong with them.

Errors have the words of Kubernetes (k8s.io/apimachinery pkg/util/validation/field/errors.go), since
people know and search for those.
"""

import json
from collections.abc import Iterable, Mapping

import orjson

from apidiscovery_service.kube.objects.formats import dns1035_label, dns_subdomain
from apidiscovery_service.sources.discovery_list import InvalidField, Node, Path

_MAX_PORT = 65535
_INT32 = 2**31
# How deep orjson writes objects and arrays in each other, and what it says of more.
_MAX_DEPTH = 254
_TOO_DEEP = "Recursion limit reached"


class Findings:
    """All that is wrong with an object."""

    def __init__(self) -> None:
        self._found: list[InvalidField] = []
        self._unreadable: set[Path] = set()

    @property
    def count(self) -> int:
        """How much was found so far."""
        return len(self._found)

    def add(self, path: Path, message: str) -> None:
        """Note a field; one that could not even be read has no further errors."""
        if path not in self._unreadable:
            self._found.append(InvalidField(path, message))

    def unreadable(self, error: InvalidField) -> None:
        """Note a field of the wrong type."""
        self.add(error.path, str(error))
        self._unreadable.add(error.path)

    def required(self, path: Path, detail: str = "") -> None:
        self.add(path, f"Required value: {detail}" if detail else "Required value")

    def invalid(self, path: Path, value: object, detail: str) -> None:
        self.add(path, f"Invalid value: {_shown(value)}: {detail}")

    def unsupported(self, path: Path, value: str, supported: Iterable[str]) -> None:
        known = ", ".join(map(_shown, supported))
        self.add(path, f"Unsupported value: {_shown(value)}: supported values: {known}")

    def forbidden(self, path: Path, detail: str) -> None:
        self.add(path, f"Forbidden: {detail}")

    def raise_any(self) -> None:
        """Raise the first finding with the others.

        Raises:
            InvalidField: There is one.
        """
        if self._found:
            first, *others = self._found
            raise InvalidField(first.path, str(first), tuple(others))


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 200 else f"{text[:200]}..."  # noqa: PLR2004 - a screen line or two


class Fields:
    """The fields of an object.

    A field that is absent, null or of the wrong type reads as empty, as in Go; the latter is noted.

    Attributes:
        path: Of the object.
        value: The object itself, or what is in its place.
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
        """Tell whether a field is set."""
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
        """Return an int32; None when it is not there."""
        node = self._nodes.get(name)
        if node is None:
            return None
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int) or not -_INT32 <= value < _INT32:
            self._wrong(node, "an integer of 32 bits")
            return None
        return value

    def object(self, name: str, *known: str) -> "Fields | None":
        """Return the fields of an object; None when it is not there."""
        node = self._nodes.get(name)
        return None if node is None else Fields(node, self.findings, known)

    def required_object(self, name: str, *known: str) -> "Fields":
        """Return the fields of an object that has to be there."""
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
    """Return what keeps a text from being a label of RFC 1035."""
    return dns1035_label(text, "characters")


def subdomain_errors(text: str) -> list[str]:
    """Return what keeps a text from being a subdomain of RFC 1123."""
    return dns_subdomain(text, "characters")


def port_errors(port: int) -> list[str]:
    """Return what keeps a number from being a port."""
    return [] if 1 <= port <= _MAX_PORT else [f"must be between 1 and {_MAX_PORT}, inclusive"]


def object_json(value: object, path: Path) -> bytes:
    """Return an object as compact JSON; keys keep their order and numbers their value.

    Raises:
        InvalidField: Something in it is nothing that JSON has, or too deep in it.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # a key that is no string, which YAML may have
        pass
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        if str(error) == _TOO_DEEP:
            message = f"is nested more than {_MAX_DEPTH} levels deep"
            raise InvalidField(path, message) from None
        raise InvalidField(path, f"cannot be written as JSON: {error}") from None


def json_form(value: object, path: Path) -> tuple[object, bytes]:
    """Return a value with keys that are strings, as `object_json` writes them, and that text.

    Raises:
        InvalidField: As `object_json`.
    """
    try:
        return value, orjson.dumps(value)
    except TypeError:
        text = object_json(value, path)
        return orjson.loads(text), text
