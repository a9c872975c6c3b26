"""Whether the evaluation of a CEL rule can end in an error, as where it selects an absent field.

An error is not tolerated in updates, a rule that is false is. What is not shown safe may fail.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from apidiscovery_client.schema_diff import cel
from apidiscovery_client.schema_diff.schemas import NO_DEFAULT, Schema

_TYPED = (frozenset({"string"}), frozenset({"integer"}), frozenset({"boolean"}))
_NUMBERS = frozenset({"number", "integer"})
_OBJECT = frozenset({"object"})
_TESTS = ("startsWith", "endsWith", "contains", "matches")
_CASES = ("lowerAscii", "upperAscii", "trim")


@dataclass(frozen=True, slots=True)
class _Pair:
    """The schema that a value was valid under, and that of the rule."""

    old: Schema
    new: Schema

    def field(self, name: str) -> "_Pair | None":
        old, new = self.old.field(name), self.new.field(name)
        return None if old is None or new is None else _Pair(old, new)

    def has(self, name: str) -> bool:
        """Tell whether every value has a field."""
        field = self.new.field(name)
        defaulted = field is not None and field.default is not NO_DEFAULT
        return defaulted or (name in self.old.required and field is not None)

    @property
    def typed(self) -> bool:
        """Whether CEL knows the type of values, and every value has it."""
        kinds = self.old.kinds, self.new.kinds
        plain = kinds[0] == kinds[1] and (kinds[0] in _TYPED or kinds[0] == _NUMBERS)
        return plain and not self.old.nullable and not self.new.nullable

    @property
    def sized(self) -> bool:
        """Whether values have a size."""
        same = self.old.kinds == self.new.kinds and len(self.old.kinds) == 1
        has_size = self.old.kinds <= {"string", "array", "object"}
        return same and has_size and not self.old.nullable and not self.new.nullable


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known where a part of a rule is evaluated."""

    names: Mapping[str, _Pair]
    present: frozenset[str] = frozenset()


def never_errs(rule: str, old: Schema, new: Schema) -> bool:
    """Tell whether a rule of the new schema is evaluated for all values of the old one."""
    tree = cel.parsed(rule)
    if tree is None:
        return False
    pair = _Pair(old, new)
    try:
        return _safe(tree, _Scope({"self": pair, "oldSelf": pair}))
    except RecursionError:
        return False


def _safe(node: ast.expr, scope: _Scope) -> bool:
    check = _SAFE.get(type(node))
    return check is not None and check(node, scope)


def _pair(node: ast.expr, scope: _Scope) -> _Pair | None:
    """Return the schemas of a value that is there for sure; None for any other."""
    if isinstance(node, ast.Name):
        return scope.names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _pair(node.value, scope)
        if owner is None or owner.old.kinds | owner.new.kinds != _OBJECT:
            return None
        is_there = owner.has(node.attr) or ast.unparse(node) in scope.present
        nullable = owner.old.nullable or owner.new.nullable
        return owner.field(node.attr) if is_there and not nullable else None
    return None


def _facts(node: ast.expr, *, when: bool) -> frozenset[str]:
    """Return what is there where a part is true, or where it is false."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return _facts(node.operand, when=not when)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) is when:
        return frozenset(fact for one in node.values for fact in _facts(one, when=when))
    if when and _is_has(node):
        return frozenset({ast.unparse(cast("ast.Call", node).args[0])})
    return frozenset()


def _is_has(node: ast.expr) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return is_call and cast("ast.Name", cast("ast.Call", node).func).id == "has"


def _logic(node: ast.expr, scope: _Scope) -> bool:
    """Tell it of && and ||: a part may fail where a part that never does decides."""
    found = cast("ast.BoolOp", node)
    when = isinstance(found.op, ast.And)
    for at, one in enumerate(found.values):
        known = scope.present
        for other in (*found.values[:at], *found.values[at + 1 :]):
            if _safe(other, scope):
                known |= _facts(other, when=when)
        if not _safe(one, replace(scope, present=known)):
            return False
    return True


def _choice(node: ast.expr, scope: _Scope) -> bool:
    found = cast("ast.IfExp", node)
    then = replace(scope, present=scope.present | _facts(found.test, when=True))
    otherwise = replace(scope, present=scope.present | _facts(found.test, when=False))
    return _safe(found.test, scope) and _safe(found.body, then) and _safe(found.orelse, otherwise)


def _not(node: ast.expr, scope: _Scope) -> bool:
    found = cast("ast.UnaryOp", node)
    if isinstance(found.op, ast.Invert):
        return _safe(found.operand, scope)
    return isinstance(found.operand, ast.Constant)


def _selected(node: ast.expr, scope: _Scope) -> bool:
    pair = _pair(node, scope)
    return pair is not None and pair.typed


def _comparison(node: ast.expr, scope: _Scope) -> bool:
    found = cast("ast.Compare", node)
    if len(found.ops) != 1:
        return False
    if isinstance(found.ops[0], ast.In):
        pair = _pair(found.comparators[0], scope)
        inside = pair is not None and pair.sized
        return _safe(found.left, scope) and (inside or _safe(found.comparators[0], scope))
    return _safe(found.left, scope) and _safe(found.comparators[0], scope)


def _list(node: ast.expr, scope: _Scope) -> bool:
    return all(_safe(one, scope) for one in cast("ast.List", node).elts)


def _call(node: ast.expr, scope: _Scope) -> bool:
    found = cast("ast.Call", node)
    if _is_has(node):
        selected = found.args[0] if len(found.args) == 1 else None
        if not isinstance(selected, ast.Attribute):
            return False
        owner = _pair(selected.value, scope)
        field = owner.field(selected.attr) if owner is not None else None
        # Its value is read too.
        return field is not None and field.old.kinds <= field.new.kinds
    if isinstance(found.func, ast.Name):
        return found.func.id == "size" and len(found.args) == 1 and _sized(found.args[0], scope)
    if not isinstance(found.func, ast.Attribute):
        return False
    return _method(found.func, found.args, scope)


def _sized(node: ast.expr, scope: _Scope) -> bool:
    pair = _pair(node, scope)
    return pair is not None and pair.sized


def _method(func: ast.Attribute, args: list[ast.expr], scope: _Scope) -> bool:
    if func.attr == "size" and not args:
        return _sized(func.value, scope)
    if func.attr in cel.MACROS:
        return _macro(func.value, args, scope)
    if func.attr in _CASES:
        return not args and _safe(func.value, scope)
    if func.attr not in _TESTS or len(args) != 1:
        return False
    literal = func.attr != "matches" or isinstance(args[0], ast.Constant)
    return literal and _safe(func.value, scope) and _safe(args[0], scope)


def _macro(owner: ast.expr, args: list[ast.expr], scope: _Scope) -> bool:
    pair = _pair(owner, scope)
    if pair is None or not pair.sized or len(args) != 2:  # noqa: PLR2004 - a name and a rule
        return False
    if not isinstance(args[0], ast.Name) or args[0].id in scope.names:
        return False
    if pair.old.kinds == frozenset({"array"}):
        item = _Pair(pair.old.items, pair.new.items)
        if item.old.nullable or item.new.nullable:
            return False
    else:
        key = Schema({"type": "string"})
        item = _Pair(key, key)
    return _safe(args[1], replace(scope, names={**scope.names, args[0].id: item}))


def _constant(node: ast.expr, scope: _Scope) -> bool:
    del node, scope
    return True


_SAFE: dict[type[ast.expr], Callable[[ast.expr, _Scope], bool]] = {
    ast.Constant: _constant,
    ast.Name: _selected,
    ast.Attribute: _selected,
    ast.BoolOp: _logic,
    ast.IfExp: _choice,
    ast.UnaryOp: _not,
    ast.Compare: _comparison,
    ast.List: _list,
    ast.Call: _call,
}
