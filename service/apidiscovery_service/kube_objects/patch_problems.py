"""What strict decoding objects to in a patch itself: fields that are there twice or unknown.

Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go, `applyJSPatch` and
`strategicPatchObject`; sigs.k8s.io/json internal/golang/encoding/json/kubernetes_patch.go.
"""

from collections.abc import Iterator

from apidiscovery_service.kube_objects.go_text import quote
from apidiscovery_service.kube_objects.json_text import Pairs, Tree

_MAX_PROBLEMS = 100  # kubernetes_patch.go, saveStrictError
_OPERATION = ("op", "path", "from", "value")


def find(patch: Tree, *, operations: bool) -> tuple[str, ...]:
    """Return the problems in the order of the text, each once and at most 100.

    Args:
        patch: The patch as it was written.
        operations: Whether it is a list of operations, whose fields are known.
    """
    problems = dict[str, None]()
    for problem in _operations(patch) if operations else _duplicates(patch, ""):
        problems[problem] = None
        if len(problems) == _MAX_PROBLEMS:
            break
    return tuple(problems)


def _operations(patch: Tree) -> Iterator[str]:
    if not isinstance(patch, list):
        return
    for index, operation in enumerate(patch):
        place = f"[{index}]"
        for name, _ in operation if isinstance(operation, Pairs) else ():
            if name not in _OPERATION:
                yield f"json patch unknown field {quote(f'{place}.{name}')}"
        for problem in _duplicates(operation, place):
            yield f"json patch {problem}"


def _duplicates(tree: Tree, place: str) -> Iterator[str]:
    if isinstance(tree, Pairs):
        seen = set[str]()
        for name, value in tree:
            inner = f"{place}.{name}" if place else name
            if name in seen:
                yield f"duplicate field {quote(inner)}"
            seen.add(name)
            yield from _duplicates(value, inner)
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _duplicates(item, f"{place}[{index}]")
