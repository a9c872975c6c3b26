"""Finds the resource that a user's word means, as kubectl finds it in discovery.

Source: client-go restmapper/discovery.go `NewDiscoveryRESTMapper`, restmapper/shortcut.go
`shortcutExpander`; apimachinery pkg/api/meta: restmapper.go, multirestmapper.go, priority.go.
"""

import re
from collections.abc import Iterable, Iterator

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._kubectl import all_resources, listed_resources, listed_versions
from apidiscovery_client.model import (
    CURRENT,
    GroupVersion,
    GroupVersionResource,
    Resource,
    Snapshot,
)
from apidiscovery_client.openapi.json_documents import NotExplained


class UnknownResource(DiscoveryError):
    """No resource is called so; kubectl writes this line without `error:` before it.

    Source: kubectl pkg/cmd/util/helpers.go `checkErr`, for `NoResourceMatchError`.
    """

    def __init__(self, resource: str, group: str = "") -> None:
        where = f' in group "{group}"' if group else ""
        super().__init__(f'the server doesn\'t have a resource type "{resource}"{where}')


def parse_group_version(text: str) -> GroupVersion:
    """Return the group-version in a text such as `apps/v1` or `v1`; raise `NotExplained`.

    Source: apimachinery pkg/runtime/schema/group_version.go `ParseGroupVersion`.
    """
    group, slash, version = text.partition("/")
    if "/" in version:
        raise NotExplained(f"unexpected GroupVersion string: {text}")
    return GroupVersion(group, version) if slash else GroupVersion("", text)


class ResourceNames:
    """Every name under which the resources of a server are known.

    Attributes:
        warnings: Those of the words looked up so far, in kubectl's words.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.warnings: list[str] = []

    def find(self, argument: str) -> tuple[GroupVersionResource, list[str]]:
        """Return the resource and the path of fields in `TYPE[.GROUP][.FIELD...]`.

        Source: kubectl pkg/explain/explain.go `SplitAndParseResourceRequestWithMatchingPrefix`.

        Raises:
            NotExplained: It is not such a path.
            UnknownResource: There is no such resource.
        """
        path = nodes(argument)
        matching = self._matching(_first(path))
        for found in matching:
            prefix = found.group_resource
            if argument.startswith(prefix):
                rest = nodes(argument.removeprefix(prefix)) if argument != prefix else []
                return found, _fields(rest, "first node must be field node")
        return matching[0], _fields(path, "first node must be field node")

    def find_one(self, argument: str) -> tuple[GroupVersionResource, list[str]]:
        """Return the preferred resource and the path of fields in `TYPE[.FIELD...]`.

        Source: kubectl pkg/explain/explain.go `SplitAndParseResourceRequest`. Raises as `find`.
        """
        path = nodes(argument)
        word = _first(path)
        matching = self._matching(word)
        preferred = min(map(self._rank, matching))
        best = [found for found in matching if self._rank(found) == preferred]
        if len(best) > 1:
            partial = GroupVersionResource("", "", word)
            listed = " ".join(map(str, matching))
            raise NotExplained(f"{partial} matches multiple resources [{listed}]")
        return best[0], _fields(path, "all nodes must be field nodes")

    def find_type(self, argument: str) -> GroupVersionResource:
        """Return the preferred resource that `TYPE[.GROUP]` means; raise `UnknownResource`.

        Other than with kubectl a group may follow each name of a type, also a short one.
        """
        word, _, group = argument.partition(".")
        if not group:
            return self._matching(word)[0]
        for gv, found in all_resources(self._snapshot):
            if gv.group == group and "/" not in found.name and word.lower() in _words(found):
                return found.gvr
        raise UnknownResource(word, group)

    def _rank(self, found: GroupVersionResource) -> int:
        """Return how late the group-version comes: v1 first, then each group's preferred one."""
        order = [GroupVersion("", "v1")]
        for group in self._snapshot.groups:
            order.append(GroupVersion(group.name, group.preferred_version))
            order += (version.gv for version in listed_versions(group))
        return order.index(GroupVersion(found.group, found.version))

    def _matching(self, word: str) -> list[GroupVersionResource]:
        """Return the resources of that name in discovery order, at least one."""
        if not word:
            raise NotExplained("a resource must be present, got: /, Resource=")
        name, group = self._expanded(word)
        found = [
            GroupVersionResource(gv.group, gv.version, plural)
            for gv, plurals in self._by_version()
            if gv.group.startswith(group)
            for plural in sorted(plurals)
            if name.lower() in (plural, plurals[plural])
        ]
        if not found:
            raise UnknownResource(name, group)
        return found

    def _expanded(self, word: str) -> tuple[str, str]:
        """Return the resource and group that a short name stands for; any other word as it is."""
        resources = list(all_resources(self._snapshot))
        if any(word in (found.name, found.singular_name) for _, found in resources):
            return word, ""
        meant = dict.fromkeys(
            (found.name, gv.group) for gv, found in resources if word in found.short_names
        )
        if not meant:
            return word, ""
        chosen, *others = meant
        self.warnings += (
            f'short name "{word}" could also match lower priority resource '
            + GroupVersionResource(group, "", name).group_resource
            for name, group in others
        )
        return chosen

    def _by_version(self) -> Iterator[tuple[GroupVersion, dict[str, str]]]:
        """Yield each current group-version with the singular of each plural in it."""
        for version in self._snapshot.versions:
            if version.freshness == CURRENT:
                yield version.gv, _singulars(listed_resources(version))


def _words(resource: Resource) -> tuple[str, ...]:
    return (
        resource.name,
        resource.singular_name,
        resource.kind.lower(),
        *resource.short_names,
    )


def _singulars(resources: Iterable[Resource]) -> dict[str, str]:
    """Return singular names by plural ones, with those that client-go makes up for lists."""
    found: dict[str, str] = {}
    for resource in resources:
        if "/" not in resource.name:
            found[resource.name] = resource.singular_name or resource.kind.lower()
            found |= _guessed(f"{resource.kind}List")
    return found | _guessed("List")


def _guessed(kind: str) -> dict[str, str]:
    singular = kind.lower()  # ends in t, so that the plural just has an s
    return {f"{singular}s": singular}


def _first(path: list[str | None]) -> str:
    if not path or path[0] is None:
        raise NotExplained("invalid jsonpath syntax, first node must be field node")
    return path[0]


def _fields(path: list[str | None], rule: str) -> list[str]:
    """Return the names after the first node; raise `NotExplained` when one is not a field."""
    names = [name for name in path[1:] if name is not None]
    if len(names) < len(path) - 1:
        raise NotExplained(f"invalid jsonpath syntax, {rule}")
    return names


_NAME = re.compile(r"(?:\\.|[^\\ \t\r\n.,\[\]$@{}])*", re.DOTALL)
_ARRAY = re.compile(r"\[[^\]\n]*\]")
_KEY = re.compile(r"\['([^'\]\n]*)'\]")  # ['name'] means the same as .name
_INDEX = re.compile(r"-?\d*(?::-?\d*)?(?::-?\d*)?|\*", re.ASCII)
_QUOTED = re.compile(r"""'[^'\n]*'|"[^"\n]*\"""")
_WORD = re.compile(r"[^ \t\r\n.,\[\]$@{}]+")


def nodes(path: str) -> list[str | None]:
    """Return the names of the fields in a path, None for each node that is not a field.

    A period at the end is ignored.

    Raises:
        NotExplained: It is not JSONPath.
    """
    return list(_nodes(f".{path.removesuffix('.')}"))


def _nodes(text: str) -> Iterator[str | None]:
    position = 0
    while position < len(text):
        character = text[position]
        if text.startswith("..", position):
            yield None
            position += 2
            if text[position : position + 1].isalnum() or text[position : position + 1] == "_":
                position -= 1
                character = "."
            else:
                continue
        if character == ".":
            name = _name(text, position + 1)
            yield None if name == "*" else name.replace("\\", "")
            position += 1 + len(name)
        elif character in " @$":
            position += 1
        elif key := _KEY.match(text, position):
            yield from _nodes(f".{key[1]}")
            position = key.end()
        else:
            yield None
            position = _end_of_other(text, position)


def _name(text: str, position: int) -> str:
    found = _NAME.match(text, position)
    return found[0] if found else ""


def _end_of_other(text: str, position: int) -> int:
    """Return where a node ends that is not a field; raise `NotExplained`."""
    character = text[position]
    if character == "}":
        raise NotExplained("must pass in 1 jsonpath string")
    if character in "\r\n":
        raise NotExplained("unclosed action")
    if character == "[":
        return _end_of_array(text, position)
    if character in "'\"":
        if quoted := _QUOTED.match(text, position):
            return quoted.end()
        raise NotExplained("unterminated quoted string")
    if (word := _WORD.match(text, position)) and (character.isalnum() or character in "_+-"):
        return word.end()
    raise NotExplained(f"unrecognized character in action: U+{ord(character):04X} '{character}'")


def _end_of_array(text: str, position: int) -> int:
    array = _ARRAY.match(text, position)
    if array is None:
        raise NotExplained("unterminated array")
    index = array[0][1:-1]
    if not all(_INDEX.fullmatch(part.strip(" ")) for part in index.split(",")):
        raise NotExplained(f"invalid array index {index}")
    return array.end()
