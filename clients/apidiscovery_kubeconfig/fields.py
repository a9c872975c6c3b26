"""Typed access to the keys of a configuration; errors name the key."""

import base64
import binascii
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

from apidiscovery_kubeconfig.errors import ConfigurationError

_KINDS: dict[type, str] = {
    bool: "true or false",
    dict: "a mapping",
    float: "a number",
    int: "a number",
    list: "a list",
    str: "text",
    type(None): "nothing",
}


_NO_NAMES: Mapping[str, str] = MappingProxyType({})


class Fields:
    """A mapping in a configuration.

    A key with a null value counts as absent, as in Kubernetes.

    Attributes:
        place: Precedes a key in errors, such as `FILE, users[jane].`; may be empty.
        folder: Base of relative paths; None for the working directory.
        names: The names of keys in errors, where these are other than `place` and key.
    """

    def __init__(
        self,
        values: object,
        place: str = "",
        folder: Path | None = None,
        names: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        self.place = place
        self.folder = folder
        if not isinstance(values, Mapping):
            where = place.rstrip("., ") or "the settings"
            raise ConfigurationError(f"{where}: want keys and values, got {_kind(values)}")
        self._values = cast("Mapping[object, object]", values)
        self._names = names
        self._given: frozenset[str] = frozenset()

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return map(str, self._values)

    def overridden(
        self, values: Mapping[str, object], names: Mapping[str, str], without: Collection[str] = ()
    ) -> "Fields":
        """Return these fields with some values replaced.

        Args:
            values: New values; relative paths in them start in the working directory.
            names: The name of each key of `values` in errors.
            without: Keys to remove.
        """
        merged = {key: value for key, value in self._values.items() if key not in without}
        merged.update(values)
        named = {**self._names, **{key: names[key] for key in values}}
        made = Fields(merged, self.place, self.folder, named)
        made._given = self._given | values.keys()
        return made

    def is_given(self, key: str) -> bool:
        """Return whether a value comes from `overridden`."""
        return key in self._given

    def where(self, key: str) -> str:
        """Return the name of a key for an error."""
        outer = key.partition("[")[0]
        return self._names.get(outer) or f"{self.place}{key}"

    def name_of(self, key: str) -> str:
        """Return the name of a key beside another one of these fields."""
        return self._names.get(key, key)

    def wrong(self, key: str, message: str) -> ConfigurationError:
        return ConfigurationError(f"{self.where(key)}: {message}")

    def only(self, known: Collection[str]) -> None:
        """Refuse every key that is not in `known`."""
        for key in self:
            if key not in known:
                import difflib  # noqa: PLC0415 - slow, and only for mistakes

                close = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
                raise self.wrong(key, f"unknown key; {hint}")

    def text(self, key: str) -> str:
        """Return a text, empty when absent."""
        value = self._values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(key, f"want text, got {_kind(value)}; put it in quotes")
        return value

    def flag(self, key: str) -> bool:
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, f"want true or false, got {_kind(value)}")
        return bool(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, empty when absent."""
        found = [(index, value) for index, value in enumerate(self._list(key))]
        for index, value in found:
            if not isinstance(value, str):
                raise self.wrong(f"{key}[{index}]", f"want text, got {_kind(value)}")
        return tuple(cast("str", value) for _, value in found)

    def text_lists(self, key: str) -> dict[str, tuple[str, ...]]:
        """Return a mapping of texts to lists of texts, in the order of its keys."""
        inner = self.inner(key)
        return {name: inner.texts(name) for name in sorted(inner)}

    def base64(self, key: str) -> bytes:
        """Return the bytes of a text in base64, empty when absent.

        Line breaks are skipped, as Go's encoding/base64 does.
        """
        text = "".join(self.text(key).split("\n")).replace("\r", "")
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise self.wrong(key, "no base64; encode the file, such as with base64 -w0") from None

    def path(self, key: str) -> Path | None:
        """Return an absolute path, None when absent."""
        text = self.text(key)
        folder = None if self.is_given(key) else self.folder
        return (folder or Path.cwd()) / text if text else None

    def inner(self, key: str) -> "Fields":
        """Return the mapping under a key, an empty one when absent."""
        value = self._values.get(key)
        return Fields({} if value is None else value, f"{self.where(key)}.", self.folder)

    def inners(self, key: str) -> Iterator["Fields"]:
        """Yield the mappings of the list under a key."""
        for index, value in enumerate(self._list(key)):
            yield Fields(value, f"{self.where(key)}[{index}].", self.folder)

    def raw(self, key: str) -> object:
        return self._values.get(key)

    def digest(self) -> str:
        """Return a digest of all values, and of what relative paths in them start from."""
        import hashlib  # noqa: PLC0415 - rarely needed
        import json  # noqa: PLC0415 - rarely needed

        content = json.dumps([str(self.folder), self._values], sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()

    def _list(self, key: str) -> list[object]:
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise self.wrong(key, f"want a list, got {_kind(value)}")
        return list(cast("list[object]", value))


def _kind(value: object) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")
