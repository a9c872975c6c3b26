"""The kinds of registrations by the names that kubectl's users give them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
from apidiscovery.service.v1 import registry_pb2

_FILES = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of registrations.

    Attributes:
        number: As registry.proto has it.
        prefix: Before the slash, where kubectl says what it did: singular kind and group.
        plural: Resource and group, as API servers name it in errors.
        api_kind: Of a manifest.
        api_group: Of a manifest.
        words: What a user may call it, the first one in help.
    """

    number: registry_pb2.RegistrationKind.ValueType
    prefix: str
    plural: str
    api_kind: str
    api_group: str
    words: tuple[str, ...]

    @property
    def aliases(self) -> Iterator[str]:
        """What a user may call it: every word, also followed by the group."""
        for word in self.words:
            yield word
            yield f"{word}.{self.api_group}"


CRD = Kind(
    registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION,
    "customresourcedefinition.apiextensions.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "CustomResourceDefinition",
    "apiextensions.k8s.io",
    ("crds", "crd", "customresourcedefinitions", "customresourcedefinition"),
)
API_SERVICE = Kind(
    registry_pb2.REGISTRATION_KIND_API_SERVICE,
    "apiservice.apiregistration.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "APIService",
    "apiregistration.k8s.io",
    ("apiservices", "apiservice"),
)
GROUPS = Kind(
    registry_pb2.REGISTRATION_KIND_GROUPS,
    "groups",
    "groups",
    "APIGroupDiscoveryList",
    "apidiscovery.k8s.io",
    ("groups", "group", "registrations", "registration"),
)
KINDS = (CRD, API_SERVICE, GROUPS)

_BY_NUMBER = {kind.number: kind for kind in KINDS}
_BY_ALIAS = {alias: kind for kind in KINDS for alias in kind.aliases}


def of_number(number: registry_pb2.RegistrationKind.ValueType) -> Kind:
    """Return a kind that the server named; one that is unknown here goes by its number."""
    unknown = Kind(number, f"kind-{number}", f"kind-{number}", "", "", ())
    return _BY_NUMBER.get(number, unknown)


def of_word(word: str) -> Kind:
    """Return the kind that a user named, in any case; raise `click.UsageError` for others."""
    kind = _BY_ALIAS.get(word.lower())
    if kind is None:
        known = ", ".join(kind.words[0] for kind in KINDS)
        hint = "; files are given with -f" if word.endswith(_FILES) else ""
        raise click.UsageError(f"there is no type {word!r}, only {known}{hint}")
    return kind


def named(words: Sequence[str]) -> list[tuple[Kind, str]]:
    """Return what `TYPE NAME...` or `TYPE/NAME...` names, in order and once each.

    A type alone has the empty name. Raises `click.UsageError` for anything else.

    Source: kubectl's resource arguments, cli-runtime pkg/resource/builder.go
    `ResourceTypeOrNameArgs`.
    """
    if not any("/" in word for word in words):
        kind = of_word(words[0])
        return list(dict.fromkeys((kind, name) for name in words[1:] or ("",)))
    found: list[tuple[Kind, str]] = []
    for word in words:
        type_, slash, name = word.partition("/")
        if not (slash and name) or "/" in name:
            raise click.UsageError(f"want TYPE/NAME everywhere or nowhere, got {word!r}")
        found.append((of_word(type_), name))
    return list(dict.fromkeys(found))
