"""Components that stand for nothing but themselves.

A schema may contain itself as a property or an item: values end somewhere. One that refers to
itself in its own place, at once or through others, or as a part of which it is composed, has no
meaning, and who follows it never ends.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from apidiscovery_formats.openapi.shapes import Object, as_list, as_object, target_of

Loop: TypeAlias = tuple[str, str, str]

_COMPOSED_OF = ("allOf", "oneOf", "anyOf")


def loops(components: Mapping[str, Object]) -> Iterator[Loop]:
    """Yield section and name of components at which a loop closes, and through which it goes."""
    for section, content in components.items():
        graph = {name: _in_place(value, section) for name, value in content.items()}
        for name, through in _closed(graph):
            yield section, name, through


def _in_place(component: object, section: str) -> list[str]:
    """Return the names of the components that stand in the place of one."""
    found: list[str] = []
    pending = [component]
    while pending:
        value = as_object(pending.pop())
        if (name := target_of(value, section)) is not None:
            found.append(name)
        elif section == "schemas":
            pending += [value["not"]] if "not" in value else []
            for keyword in _COMPOSED_OF:
                pending += as_list(value.get(keyword))
    return found


def _closed(graph: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, str]]:
    """Yield each node from which an edge leads back into its own trail, and where to.

    Every node and every edge is looked at once.
    """
    done: set[str] = set()
    for start in graph:
        if start in done:
            continue
        trail = {start}
        stack = [(start, iter(graph[start]))]
        while stack:
            name, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                stack.pop()
                trail.discard(name)
                done.add(name)
            elif target in trail:
                yield name, target
            elif target in graph and target not in done:
                trail.add(target)
                stack.append((target, iter(graph[target])))
