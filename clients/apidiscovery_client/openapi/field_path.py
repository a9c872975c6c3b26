"""Reads `TYPE.FIELD.FIELD` as kubectl does: by its JSONPath, of which only fields are of use.

Source: client-go util/jsonpath/parser.go; kubectl pkg/explain/explain.go `jsonPathParse`.
"""

import re
from collections.abc import Iterator

from apidiscovery_client.openapi.errors import NotExplained

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
        NotExplained: It is no JSONPath.
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
    """Return where a node ends that is no field; raise `NotExplained`."""
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
