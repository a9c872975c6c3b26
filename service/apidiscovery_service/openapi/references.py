"""References within a document, what they reach, and free names for their targets."""

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from apidiscovery_formats.openapi.pointers import unescaped

from apidiscovery_service.kube.go_json import JSONValue

Node = TypeVar("Node", bound=Hashable)

# Marks a dangling reference; the value is the reference.
UNRESOLVED: Final = "x-apidiscovery-unresolved"

# References in a row that are followed; a longer chain is a circle, or made to take time.
MAX_HOPS: Final = 16

# OpenAPI 3.0, Components Object: names of components.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")


def pointer_token(name: str) -> str:
    """Return a name as a token of a JSON pointer (RFC 6901, section 3), without percent escapes."""
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
    return unescaped(token), slash + rest


def resolves(value: JSONValue, pointer: str) -> bool:
    """Return whether a pointer such as `/properties/a` leads to an object within a value."""
    for token in pointer.split("/")[1:]:
        name = unescaped(token)
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _is_index(name, len(value)):
            value = value[int(name)]
        else:
            return False
    return isinstance(value, dict)


def _is_index(token: str, length: int) -> bool:
    # Longer ones are not indexes of any list; Python refuses more than 4 300 digits.
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

    Edges to unknown nodes are ignored. This is Tarjan's algorithm without recursion: a chain of
    references can have any length.
    """
    numbers: dict[Node, int] = {}
    # The number of the earliest node that is known to be reached; behind all for closed ones.
    earliest: dict[Node, int] = {}
    opened: list[Node] = []
    calls: list[tuple[Node, Iterator[Node]]] = []

    def enter(node: Node) -> None:
        numbers[node] = earliest[node] = len(numbers)
        opened.append(node)
        calls.append((node, iter(edges[node])))

    for start in edges:
        if start not in numbers:
            enter(start)
        while calls:
            node, following = calls[-1]
            for other in following:
                if other in numbers:
                    earliest[node] = min(earliest[node], earliest[other])
                elif other in edges:
                    enter(other)
                    break
            else:
                calls.pop()
                if calls:
                    caller = calls[-1][0]
                    earliest[caller] = min(earliest[caller], earliest[node])
                if earliest[node] == numbers[node]:
                    yield _closed(node, opened, earliest, len(edges))


def _closed(
    node: Node, opened: list[Node], earliest: dict[Node, int], behind_all: int
) -> list[Node]:
    """Take a node and all that were opened after it."""
    component: list[Node] = []
    while not component or component[-1] != node:
        component.append(opened.pop())
        earliest[component[-1]] = behind_all
    return component
