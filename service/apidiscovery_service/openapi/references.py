"""References within a document, what they reach, and free names for their targets."""

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar
from urllib.parse import unquote

from apidiscovery_service.kube.go_json import JSONValue

Node = TypeVar("Node", bound=Hashable)

# Marks a dangling reference; the value is the reference.
UNRESOLVED: Final = "x-apidiscovery-unresolved"

# References in a row that are followed; a longer chain is a circle, or made to take time.
MAX_HOPS: Final = 16

# OpenAPI 3.0, Components Object: names of components.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")


def escaped(name: str) -> str:
    """Return a name as a token of a JSON pointer (RFC 6901, section 3)."""
    return name.replace("~", "~0").replace("/", "~1")


def pointed(reference: str, prefix: str) -> tuple[str, str] | None:
    """Return the name that follows a prefix such as `#/definitions/`, and the rest from its slash.

    Text before the prefix is ignored, as in kube-openapi `ConvertSchema`. None when the prefix is
    missing.

    >>> pointed("#/definitions/a~1b/properties/c", "#/definitions/")
    ('a/b', '/properties/c')
    """
    _, found, pointer = reference.partition(prefix)
    if not found:
        return None
    token, slash, rest = pointer.partition("/")
    return unquote(token).replace("~1", "/").replace("~0", "~"), slash + rest


def resolves(value: JSONValue, pointer: str) -> bool:
    """Return whether a pointer such as `/properties/a` leads to an object within a value."""
    for token in pointer.split("/")[1:]:
        name = unquote(token).replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _is_index(name, len(value)):
            value = value[int(name)]
        else:
            return False
    return isinstance(value, dict)


def _is_index(token: str, length: int) -> bool:
    # Longer ones are no index of any list; Python refuses more than 4 300 digits.
    return token.isdecimal() and len(token) < len("1000000000") and int(token) < length


class UniqueNames:
    """Gives out names, each once, in constant time however many names are alike."""

    def __init__(self, taken: Iterable[str] = (), separator: str = "_v") -> None:
        """Take the names in use, and the text before the number of a name."""
        self._taken = set(taken)
        self._separator = separator
        # The last number of each name.
        self._numbers: dict[str, int] = {}

    def free(self, name: str, avoid: Collection[str] = ()) -> str:
        """Return the name if it is free, else the name with the first number that is free.

        Args:
            name: The name that is wanted.
            avoid: Names that none with a number may have.
        """
        number = self._numbers.get(name, 1)
        free = name if number == 1 else f"{name}{self._separator}{number}"
        while free in self._taken or (free != name and free in avoid):
            number += 1
            free = f"{name}{self._separator}{number}"
        self._numbers[name] = number
        self._taken.add(free)
        return free


class ComponentNames:
    """Maps names of any characters to names that OpenAPI 3.0 allows for components.

    Allowed names stay as they are. The others are mapped in sorted order, so the order of the names
    that are given at the start does not matter.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = {name: name for name in names if name and not _NOT_IN_NAMES.search(name)}
        self._unique = UniqueNames(self._names)
        for name in sorted(names):
            self.add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> str:
        return self._names[name]

    def add(self, name: str) -> str:
        """Return the component's name for a name, a new one if need be."""
        if name not in self._names:
            self._names[name] = self._unique.free(_NOT_IN_NAMES.sub("_", name) or "_")
        return self._names[name]


def references_in(value: JSONValue) -> Iterator[str]:
    """Yield every reference in a value, in no particular order."""
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                yield reference
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)


def reached(start: Iterable[Node], edges: Mapping[Node, Collection[Node]]) -> set[Node]:
    """Return the nodes of a graph that can be reached, including those at the start."""
    found: set[Node] = set()
    waiting = list(start)
    while waiting:
        node = waiting.pop()
        if node not in found and node in edges:
            found.add(node)
            waiting.extend(edges[node])
    return found


def components(edges: Mapping[Node, Collection[Node]]) -> Iterator[list[Node]]:
    """Yield the strongly connected components of a graph, each after all that it leads to.

    Edges to unknown nodes are ignored.
    """
    search = _Search(edges)
    for node in edges:
        yield from search.from_node(node)


class _Search(Generic[Node]):
    """Tarjan's algorithm without recursion: a chain of references can have any length."""

    def __init__(self, edges: Mapping[Node, Collection[Node]]) -> None:
        self._edges = edges
        # The number of the earliest node that is known to be reached; behind all for closed ones.
        self._earliest: dict[Node, int] = {}
        self._open: list[Node] = []
        self._calls: list[tuple[Node, int, Iterator[Node]]] = []

    def from_node(self, node: Node) -> Iterator[list[Node]]:
        """Yield the components that are reached from a node and have not been yielded."""
        if node not in self._earliest:
            self._enter(node)
        while self._calls:
            if not self._step():
                component = self._leave()
                if component:
                    yield component

    def _enter(self, node: Node) -> None:
        number = self._earliest[node] = len(self._earliest)
        self._open.append(node)
        self._calls.append((node, number, iter(self._edges[node])))

    def _step(self) -> bool:
        """Follow the edges of the innermost node; return whether one leads to a new node."""
        node, _, following = self._calls[-1]
        for other in following:
            if other in self._earliest:
                self._lower(node, other)
            elif other in self._edges:
                self._enter(other)
                return True
        return False

    def _lower(self, node: Node, other: Node) -> None:
        self._earliest[node] = min(self._earliest[node], self._earliest[other])

    def _leave(self) -> list[Node]:
        """Go back from the innermost node; return the component that it closes, if it does."""
        node, number, _ = self._calls.pop()
        if self._calls:
            self._lower(self._calls[-1][0], node)
        if self._earliest[node] != number:
            return []
        start = len(self._open) - 1
        while self._open[start] != node:
            start -= 1
        component = self._open[start:]
        del self._open[start:]
        self._earliest.update(dict.fromkeys(component, len(self._edges)))
        return component
