"""Strategic merge patches: merge patches that know which lists are sets.

Of the kinds that are kept only `metadata.finalizers` (a set of strings) and
`metadata.ownerReferences` (one for each `uid`) are merged; every other list is replaced. Sources:
the `patchStrategy` tags in k8s.io/apimachinery pkg/apis/meta/v1/types.go and their absence in
k8s.io/api apiserverinternal/v1alpha1 and coordination/v1; pkg/util/strategicpatch/patch.go for
the directives.

What upstream answers with 500 because no code is attached to the error is 400 here: the patch is
what is wrong.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.kube_objects import errors
from apidiscovery_service.kube_objects.errors import ObjectError
from apidiscovery_service.kube_objects.go_text import plain
from apidiscovery_service.kube_objects.reading import Fields

Path: TypeAlias = tuple[str, ...]
Items: TypeAlias = Sequence[JSONValue]
Key: TypeAlias = str | int | float | None
"""What tells an item of a merged list from the others."""

_MERGE_KEYS: Mapping[Path, str] = {
    ("metadata", "finalizers"): "",
    ("metadata", "ownerReferences"): "uid",
}
"""The field by which the items of a merged list are told apart; empty for plain values."""

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_PREFIX = "$deleteFromPrimitiveList"
_ORDER_PREFIX = "$setElementOrder"

_BAD_DELETION = "invalid patch format of primitive list"
_BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
_BAD_ORDER = "invalid patch format of setElementOrder list"


def merge(original: Fields, patch: Fields) -> dict[str, JSONValue]:
    """Return what a patch makes of an object; neither is changed.

    Raises:
        ObjectError: The patch makes no sense; 400 or, for a list of lists, 422.
    """
    return _merge_map(original, patch, ())


def _merge_map(original: Fields, patch: Fields, path: Path) -> dict[str, JSONValue]:
    if _DIRECTIVE in patch:
        return _directed(patch)
    merged = _retained(original, patch)
    ordered = {key for key in patch if key.startswith(_ORDER_PREFIX)}
    taken = ordered | {_RETAIN_KEYS}
    for key in sorted(ordered):
        name = _suffix(key, _ORDER_PREFIX, _BAD_ORDER)
        taken.add(name)
        _merge_ordered(merged, patch, key, (*path, name))
    # Deletions come first, since `$` sorts before every letter; upstream leaves it to chance.
    for key in sorted(patch.keys() - taken):
        _merge_field(merged, key, patch[key], path)
    return merged


def _directed(patch: Fields) -> dict[str, JSONValue]:
    if patch[_DIRECTIVE] == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if patch[_DIRECTIVE] == "delete":
        return {}
    raise _unknown_directive(patch)


def _unknown_directive(patch: Fields) -> ObjectError:
    directive = plain(patch[_DIRECTIVE])
    return errors.bad_request(f"unknown patch type: {directive} in map: {plain(patch)}")


def _suffix(key: str, prefix: str, otherwise: str) -> str:
    before, slash, name = key.partition("/")
    if before != prefix or not slash:
        raise errors.bad_request(otherwise)
    return name


def _retained(original: Fields, patch: Fields) -> dict[str, JSONValue]:
    if _RETAIN_KEYS not in patch:
        return dict(original)
    listed = _items(patch[_RETAIN_KEYS])
    if listed is None:
        raise errors.bad_request(_BAD_RETAIN_KEYS)
    keys = {key for key in listed if isinstance(key, str)}
    for key, value in patch.items():
        is_directive = key == _RETAIN_KEYS or key.startswith((_DELETE_PREFIX, _ORDER_PREFIX))
        if value is not None and not is_directive and key not in keys:
            raise errors.bad_request(_BAD_RETAIN_KEYS)
    return {key: value for key, value in original.items() if key in keys}


def _merge_field(merged: dict[str, JSONValue], key: str, value: JSONValue, path: Path) -> None:
    deletes = key.startswith(_DELETE_PREFIX)
    name = _suffix(key, _DELETE_PREFIX, _BAD_DELETION) if deletes else key
    before = merged.get(name)
    before_items, items = _items(before), _items(value)
    if value is None:
        merged.pop(name, None)
    elif deletes:
        if before_items is not None and items is not None:
            merged[name] = _without(before_items, items)
    elif isinstance(before, Mapping) and isinstance(value, Mapping):
        merged[name] = _merge_map(before, value, (*path, name))
    elif before_items is not None and items is not None:
        merge_key = _MERGE_KEYS.get((*path, name))
        merged[name] = items if merge_key is None else _merge_lists(before_items, items, merge_key)
    elif _is_directive(value):
        merged.pop(name, None)
    else:
        merged[name] = _stripped(value)


def _items(value: JSONValue) -> Items | None:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return None
    return value


def _is_directive(value: JSONValue) -> bool:
    return isinstance(value, Mapping) and _DIRECTIVE in value


def _stripped(value: JSONValue) -> JSONValue:
    """Return a new value without nulls and without what is marked by a directive."""
    if isinstance(value, Mapping):
        return {
            key: _stripped(inner)
            for key, inner in value.items()
            if inner is not None and not _is_directive(inner)
        }
    items = _items(value)
    if items is None:
        return value
    return [_stripped(item) for item in items if not _is_directive(item)]


def _without(items: Items, deleted: Items) -> Items:
    gone = set(_keys(deleted, ""))
    return [item for item, key in zip(items, _keys(items, ""), strict=True) if key not in gone]


def _keys(items: Items, merge_key: str) -> list[Key]:
    if len({type(item) for item in items}) > 1:
        raise errors.bad_request(f"list element types are not identical: {plain(items)}")
    return [_plain_key(_merge_value(item, merge_key) if merge_key else item) for item in items]


def _merge_value(item: JSONValue, merge_key: str) -> JSONValue:
    if not isinstance(item, Mapping):
        raise errors.bad_request(f"expected a map, but received {plain(item)}")
    if merge_key not in item:
        raise errors.bad_request(
            f"map: {plain(item)} does not contain declared merge key: {merge_key}"
        )
    return item[merge_key]


def _plain_key(value: JSONValue) -> Key:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        raise errors.bad_request(f"expected a plain value, but received {plain(value)}")
    raise errors.unprocessable()  # lists of lists are not supported


def _keyed(items: Items, merge_key: str) -> dict[Key, JSONValue]:
    return dict(zip(_keys(items, merge_key), items, strict=True))


def _merge_lists(original: Items, patch: Items, merge_key: str) -> Items:
    """Return the items of both, in the order of the original where the patch does not object."""
    if merge_key:
        original, patch = _obeyed(original, patch, merge_key)
    _keys([*original, *patch], merge_key)  # all of one type
    merged = _keyed(original, merge_key)
    for key, item in _keyed(patch, merge_key).items():
        before = merged.get(key)
        if isinstance(before, Mapping) and isinstance(item, Mapping):
            merged[key] = _merge_map(before, item, ())
        else:
            merged[key] = item
    return _in_order(merged, _keys(patch, merge_key), _keys(original, merge_key))


def _obeyed(original: Items, patch: Items, merge_key: str) -> tuple[Items, Items]:
    """Return both lists after the directives among the items of the patch."""
    kept = [item for item in patch if not _is_directive(item)]
    deleted = list[JSONValue]()
    replaces = False
    for item in patch:
        if not isinstance(item, Mapping) or not _is_directive(item):
            continue
        if item[_DIRECTIVE] == "replace":
            replaces = True
        elif item[_DIRECTIVE] == "delete":
            deleted.append(item)
        else:
            raise _unknown_directive(item)
    gone = set(_keys(deleted, merge_key))
    if replaces:
        return kept, ()
    left = _keyed(original, merge_key).items()
    return [item for key, item in left if key not in gone], kept


def _in_order(merged: dict[Key, JSONValue], wanted: list[Key], before: list[Key]) -> Items:
    """Return all items: those in `wanted` in that order, among them the rest as it was `before`."""
    wanted_rank, rank = _ranks(wanted), _ranks(before)
    named = sorted((key for key in merged if key in wanted_rank), key=wanted_rank.__getitem__)
    rest = [key for key in merged if key not in wanted_rank]
    ordered = list[Key]()
    position = 0
    for key in named:
        while (
            position < len(rest)
            and key in rank
            and rest[position] in rank
            and rank[rest[position]] < rank[key]
        ):
            ordered.append(rest[position])
            position += 1
        ordered.append(key)
    return [merged[key] for key in [*ordered, *rest[position:]]]


def _ranks(keys: Iterable[Key]) -> dict[Key, int]:
    return {key: rank for rank, key in enumerate(dict.fromkeys(keys))}


def _merge_ordered(merged: dict[str, JSONValue], patch: Fields, directive: str, path: Path) -> None:
    """Merge the list to which an order is given, and put it in that order."""
    name = path[-1]
    merge_key = _MERGE_KEYS.get(path)
    order = _items(patch[directive])
    before, items = _items(merged.get(name, ())), _items(patch.get(name, ()))
    if merge_key is None or order is None or before is None or items is None:
        raise errors.bad_request(_BAD_ORDER)
    wanted = _keys(order, merge_key)
    kept = [item for item in items if not _is_directive(item)]
    if wanted and not _is_subsequence(_keys(kept, merge_key), wanted):
        raise errors.bad_request(
            f"The order in patch list:\n{plain(items)}\n doesn't match {_ORDER_PREFIX} list:\n"
            f"{plain(order)}\n"
        )
    if name in merged or name in patch:
        both = _merge_lists(before, items, merge_key)
        merged[name] = _in_order(_keyed(both, merge_key), wanted, _keys(before, merge_key))


def _is_subsequence(keys: Iterable[Key], wanted: Iterable[Key]) -> bool:
    left = iter(wanted)
    return all(key in left for key in keys)
