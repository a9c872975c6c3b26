"""Reads kubeconfig files and merges several of them.

Source: client-go tools/clientcmd/loader.go `ClientConfigLoadingRules.Load`.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from apidiscovery_kubeconfig.errors import ConfigurationError
from apidiscovery_kubeconfig.fields import Fields

MAX_FILE_BYTES = 16 << 20


def default_files() -> list[Path]:
    """Return the files of KUBECONFIG, in the order of precedence, else that at home."""
    names = os.environ.get("KUBECONFIG", "")
    if not names:
        return [Path.home() / ".kube" / "config"]
    return [Path(name) for name in dict.fromkeys(names.split(os.pathsep)) if name]


@dataclass(slots=True)
class Config:
    """The merged content of kubeconfig files: entries by kind and name."""

    clusters: dict[str, Fields] = field(default_factory=dict[str, Fields])
    users: dict[str, Fields] = field(default_factory=dict[str, Fields])
    contexts: dict[str, Fields] = field(default_factory=dict[str, Fields])
    current_context: str = ""
    files: tuple[Path, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether all files are empty or missing."""
        return not (self.clusters or self.users or self.contexts or self.current_context)

    @property
    def place(self) -> str:
        """The names of all files, for errors."""
        return " and ".join(map(str, self.files))

    def add(self, file: Path, *, may_be_missing: bool) -> None:
        """Merge a file of lower precedence.

        Raises:
            ConfigurationError: It cannot be read, or is not a kubeconfig.
        """
        content = read_file(file, may_be_missing=may_be_missing)
        if content is None:
            return
        self.files += (file,)
        fields = parsed(content, file)
        for kind, known in (
            ("clusters", self.clusters),
            ("users", self.users),
            ("contexts", self.contexts),
        ):
            own = _entries(fields, kind)
            known.update({name: entry for name, entry in own.items() if name not in known})
        current = fields.text("current-context")
        self.current_context = self.current_context or current

    def context(self, name: str) -> Fields:
        """Return the keys of a context; raise `ConfigurationError` when there is none."""
        if not name:
            raise ConfigurationError(
                f"{self.place}, current-context: not set; name a context, {known(self.contexts)}"
            )
        if name not in self.contexts:
            raise ConfigurationError(
                f"{self.place}, contexts: no context {name!r}; {known(self.contexts)}"
            )
        return self.contexts[name]


def known(entries: Iterable[str]) -> str:
    """Return the list of existing names, for an error."""
    names = sorted(entries)
    return f"there are {', '.join(names)}" if names else "there are none"


def read_file(file: Path, *, may_be_missing: bool = False) -> bytes | None:
    """Return the content of a file; None where it is missing and may be.

    Raises:
        ConfigurationError: It cannot be read, or is very large.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        if may_be_missing:
            return None
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from None
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{file}: larger than {MAX_FILE_BYTES} bytes")
    return content


def parsed(content: bytes, file: Path) -> Fields:
    """Return the keys of a YAML or JSON file, none for an empty one.

    Raises:
        ConfigurationError: It is neither, or has no keys.
    """
    from apidiscovery_formats import yaml_text  # noqa: PLC0415 - only needed for a file

    try:
        value = yaml_text.load(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}: not UTF-8") from None
    except yaml_text.Unparsable as error:
        raise ConfigurationError(f"{file}:{error.line + 1}: {error}") from None
    if value is None:
        value = dict[str, object]()
    return Fields(value, f"{file}, ", file.absolute().parent)


def _entries(fields: Fields, kind: str) -> dict[str, Fields]:
    """Return the entries of a list by name; their keys are under the singular of its name."""
    found: dict[str, Fields] = {}
    for entry in fields.inners(kind):
        name = entry.text("name")
        if name in found:
            raise entry.wrong("name", f"{name!r} is there twice; remove or rename one")
        inner = kind.removesuffix("s")
        values = entry.raw(inner)
        place = f"{fields.place}{kind}[{name}].{inner}."
        found[name] = Fields({} if values is None else values, place, fields.folder)
    return found
