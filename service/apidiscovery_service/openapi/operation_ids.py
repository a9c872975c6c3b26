"""Names, tags and descriptions of operations, as Kubernetes makes them up."""

from collections.abc import Iterable
from functools import lru_cache

# k8s.io/apiserver pkg/endpoints/openapi/openapi.go:verbs
_VERBS = (
    "get",
    "log",
    "read",
    "replace",
    "patch",
    "delete",
    "deletecollection",
    "watch",
    "connect",
    "proxy",
    "list",
    "create",
)
_VOWELS = frozenset("aeiou")


@lru_cache(maxsize=1024)
def camel(text: str, *, capital: bool) -> str:
    """Return text without what is no letter, digit or underscore; the next letter is made large.

    A digit at the very beginning is left out.

    Args:
        text: Such as `stable.example.com`.
        capital: Whether the first letter is made large as well.

    Source: k8s.io/apiserver pkg/endpoints/openapi/openapi.go:ToValidOperationID.
    """
    letters: list[str] = []
    for index, letter in enumerate(text):
        if letter.isalpha() or letter == "_" or (index and letter.isdecimal()):
            letters.append(_upper(letter) if capital else letter)
            capital = False
        else:
            capital = True
    return "".join(letters)


def _upper(letter: str) -> str:
    """Return a letter in upper case; one that has no such single letter stays."""
    large = letter.upper()
    return large if len(large) == 1 else letter


def operation_id(stem: str, group: str, version: str) -> str:
    """Return the operationId.

    The shortest verb that the stem begins with goes in front of group and version, so
    `deletecollectionNamespacedCronTab` becomes `delete...CollectionNamespacedCronTab`.

    Args:
        stem: The operation without its group, such as `listNamespacedCronTab`.
        group: Such as `stable.example.com`; a trailing `.k8s.io` does not count.
        version: Such as `v1`.

    Raises:
        ValueError: The stem begins with no verb.

    Source: k8s.io/apiserver pkg/endpoints/openapi/openapi.go:GetOperationIDAndTags.
    """
    verb = min(_verbs_of(stem), key=len)
    words = (group.removesuffix(".k8s.io"), version, stem[len(verb) :])
    return verb + "".join(camel(word, capital=True) for word in words)


def _verbs_of(stem: str) -> Iterable[str]:
    return (verb for verb in _VERBS if stem.startswith(verb))


def tag(group: str, version: str) -> str:
    """Return the tag of a group-version, such as `stableExampleCom_v1`."""
    short = group.removesuffix(".k8s.io")
    return f"{camel(short, capital=False)}_{camel(version, capital=False)}"


def article(noun: str) -> str:
    """Return what stands between a verb and a noun: ` a `, ` an `, or a space before a plural.

    Source: k8s.io/apiserver pkg/endpoints/installer.go:GetArticleForNoun.
    """
    if noun.endswith("s") and not noun.endswith("ss"):
        return " "
    return " an " if noun[:1].lower() in _VOWELS else " a "


def description(verb: str, kind: str, subresource: str = "") -> str:
    """Return what an operation does, in words.

    Args:
        verb: `list`, `create`, `deletecollection`, `read`, `replace`, `delete` or `patch`.
        kind: Such as `CronTab`.
        subresource: `status`, `scale`, or empty.

    Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go:descriptionFor.
    """
    part = f" {subresource} of" if subresource else ""
    match verb:
        case "list":
            return f"list{part} objects of kind {kind}"
        case "create" | "delete":
            return f"{verb}{part}{article(kind)}{kind}"
        case "deletecollection":
            return f"delete collection of{part}{' a' if part else ''} {kind}"
        case "patch":
            return f"partially update{part} the specified {kind}"
        case _:
            return f"{verb}{part} the specified {kind}"
