"""CEL rules on values: the part of the language that Python's syntax has too.

A rule is rewritten token by token, parsed by Python, and evaluated over a list of node types. For
anything else the answer is None, never a guess.
"""

import ast
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import cast

from apidiscovery_client.schema_diff.patterns import matches

_TOKEN = re.compile(
    r"""\s+|(?P<text>"(?:[^"\\\n]|\\["\\ntr])*"|'(?:[^'\\\n]|\\['\\ntr])*')"""
    r"""|(?P<number>\d+(?:\.\d+)?)(?![\w.])|(?P<name>[A-Za-z_]\w*)|(?P<op>&&|\|\||[!=<>]=|[-!<>+*%().,\[\]?:])"""
)
_OPERATORS = {"&&": " and ", "||": " or ", "!": "~"}
_NAMES = {"true": "True", "false": "False", "null": "None", "in": " in "}
# They are names in CEL; Python would read another program.
_RESERVED = frozenset(
    [
        "and",
        "or",
        "not",
        "is",
        "if",
        "else",
        "for",
        "while",
        "lambda",
        "True",
        "False",
        "None",
        "await",
        "yield",
        "async",
    ]
)
MACROS = ("all", "exists", "exists_one")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CASES = {
    "lowerAscii": str.maketrans(_LETTERS.upper(), _LETTERS),
    "upperAscii": str.maketrans(_LETTERS, _LETTERS.upper()),
}
_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")
_MAX_LENGTH = 2_000


class _CannotTellError(Exception):
    """A rule has a part that is not evaluated here."""


class _FailsError(Exception):
    """Evaluation ends in an error, for which the server refuses the object."""


@lru_cache(maxsize=512)
def parsed(rule: str) -> ast.expr | None:
    """Return a rule as Python's syntax has it; None where it has something else."""
    parts = list[str]()
    at = 0
    while at < len(rule):
        found = _TOKEN.match(rule, at)
        if found is None or len(rule) > _MAX_LENGTH:
            return None
        at = found.end()
        token = found.group().strip()
        name = found.group("name")
        if name is not None and (name in _RESERVED or (name == "r" and rule[at : at + 1] in "'\"")):
            return None
        parts.append(_NAMES.get(token, _OPERATORS.get(token, token or " ")))
    try:
        return ast.parse(_with_choices(parts).strip(), mode="eval").body
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return None


def _with_choices(parts: list[str]) -> str:
    """Return the text of tokens, in which `a ? b : c` is Python's; brackets are handled inside out.

    Raises:
        IndexError: Brackets do not match.
    """
    groups: list[list[str]] = [[]]
    for part in parts:
        if part in ("(", "["):
            groups.append([])
        elif part in (")", "]"):
            inner = _choice(groups.pop())
            groups[-1].append(f"({inner})" if part == ")" else f"[{inner}]")
        elif part == ",":
            groups[-1] = [_choice(groups[-1]), ","]
        else:
            groups[-1].append(part)
    (outer,) = groups
    return _choice(outer)


def _choice(parts: list[str]) -> str:
    """Return the text of tokens of one level, of which the last after a comma may be a choice."""
    before = "".join(parts[: parts.index(",") + 1]) if "," in parts else ""
    parts = parts[parts.index(",") + 1 :] if before else parts
    if "?" not in parts:
        return before + "".join(parts)
    at = parts.index("?")
    open_choices = 0
    for end in range(at + 1, len(parts)):
        open_choices += (parts[end] == "?") - (parts[end] == ":")
        if open_choices < 0:
            then, otherwise = _choice(parts[at + 1 : end]), _choice(parts[end + 1 :])
            return f"{before}(({then}) if ({''.join(parts[:at])}) else ({otherwise}))"
    raise IndexError


def reads(rule: str, path: tuple[str, ...], *, counts: bool = True) -> bool | None:
    """Tell whether a rule depends on the value at a path below `self`; None where it may.

    Args:
        rule: The rule.
        path: Names of fields; `[]` for items, `{}` for values of a map.
        counts: Whether it depends on it by the size of the object around, too.
    """
    undecided = False
    for found in re.finditer(r"\bself\b((?:\s*\.\s*[A-Za-z_]\w*(?!\w*\s*\())*)", rule):
        names = tuple(re.findall(r"\w+", found.group(1)))
        rest = rule[found.end() :]
        if names[: len(path)] == path:
            return True
        if names != path[: len(names)]:
            continue  # it is another field
        by_item = re.match(r"\s*\.\s*(all|exists|exists_one|map|filter)\(", rest)
        if path[len(names)] == "[]" and by_item:
            return True
        if path[len(names)] == "{}" and by_item and not counts:
            continue  # it is about keys
        wrapped = re.search(r"\b(size|has)\(\s*$", rule[: found.start()])
        in_size = re.match(r"\s*\.\s*size\(\s*\)", rest) is not None
        if wrapped and rest.lstrip().startswith(")"):
            in_has = wrapped.group(1) == "has"
            in_size = not in_has
        else:
            in_has = False
        is_around = len(names) == len(path) - 1
        if in_size and counts and is_around and path[-1] != "[]":
            return True
        undecided = undecided or not (in_has or in_size)
    return None if undecided else False


def numbers_in(rule: str) -> list[int]:
    """Return the whole numbers that a rule names, for examples; at most ten."""
    return [int(one) for one in re.findall(r"(?<![\w.])\d{1,15}(?![\w.])", rule)][:10]


def texts_in(rule: str) -> list[str]:
    """Return the strings that a rule names, for examples; at most ten."""
    return [one[1:-1] for one in re.findall(r"'[^'\\]*'|\"[^\"\\]*\"", rule)][:10]


def is_transition(rule: str) -> bool:
    """Tell whether a rule compares with the object before."""
    return re.search(r"\boldSelf\b", rule) is not None


def holds(rule: str, value: object) -> bool | None:
    """Tell whether a rule holds for a value; None where that cannot be told."""
    try:
        return _answer(rule, value)
    except _FailsError:
        return False


def errs(rule: str, value: object) -> bool:
    """Tell whether the evaluation of a rule for a value surely ends in an error."""
    try:
        _answer(rule, value)
    except _FailsError:
        return True
    return False


def _answer(rule: str, value: object) -> bool | None:
    found = parsed(rule)
    if found is None:
        return None
    try:
        answer = _value(found, {"self": value})
    except (_CannotTellError, RecursionError):
        return None
    return answer if isinstance(answer, bool) else None


def _value(node: ast.expr, names: Mapping[str, object]) -> object:
    evaluate = _NODES.get(type(node))
    if evaluate is None:
        raise _CannotTellError
    return evaluate(node, names)


def _constant(node: ast.expr, names: Mapping[str, object]) -> object:
    del names
    value = cast("ast.Constant", node).value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _CannotTellError


def _name(node: ast.expr, names: Mapping[str, object]) -> object:
    name = cast("ast.Name", node).id
    if name not in names:
        raise _CannotTellError
    return names[name]


def _attribute(node: ast.expr, names: Mapping[str, object]) -> object:
    found = cast("ast.Attribute", node)
    owner = _value(found.value, names)
    if not isinstance(owner, dict) or "__" in found.attr:
        raise _CannotTellError
    fields = cast("dict[str, object]", owner)
    if found.attr not in fields:
        # Those three are in every object, whether or not an example has them.
        raise _CannotTellError if found.attr in _OF_EVERY_OBJECT else _FailsError
    return _plain(fields[found.attr])


def _plain(value: object) -> object:
    if value is None:
        raise _CannotTellError  # what null is, depends on the schema
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise _CannotTellError
    return value


def _logic(node: ast.expr, names: Mapping[str, object]) -> object:
    """Evaluate && or ||, where one side decides whatever the error of the other."""
    found = cast("ast.BoolOp", node)
    decides = isinstance(found.op, ast.Or)
    problem: Exception | None = None
    for one in found.values:
        try:
            if _bool(_value(one, names)) is decides:
                return decides
        except (_CannotTellError, _FailsError) as error:
            problem = problem if isinstance(problem, _CannotTellError) else error
    if problem is not None:
        raise problem
    return not decides


def _if(node: ast.expr, names: Mapping[str, object]) -> object:
    found = cast("ast.IfExp", node)
    return _value(found.body if _bool(_value(found.test, names)) else found.orelse, names)


def _unary(node: ast.expr, names: Mapping[str, object]) -> object:
    found = cast("ast.UnaryOp", node)
    value = _value(found.operand, names)
    if isinstance(found.op, ast.Invert):
        return not _bool(value)
    if isinstance(found.op, ast.USub) and _is_number(value):
        return -cast("float", value)
    raise _CannotTellError


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _arithmetic(node: ast.expr, names: Mapping[str, object]) -> object:
    found = cast("ast.BinOp", node)
    left, right = _value(found.left, names), _value(found.right, names)
    if type(left) is not int or type(right) is not int:
        if isinstance(found.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        raise _CannotTellError
    operations: dict[type[ast.operator], Callable[[int, int], int]] = {
        ast.Add: int.__add__,
        ast.Sub: int.__sub__,
        ast.Mult: int.__mul__,
        ast.Mod: _remainder,
    }
    operation = operations.get(type(found.op))
    if operation is None:
        raise _CannotTellError
    answer = operation(left, right)
    if not -(2**63) <= answer < 2**63:
        raise _FailsError
    return answer


def _remainder(one: int, other: int) -> int:
    """Return what is left, of the sign of the first as in Go."""
    if other == 0:
        raise _FailsError
    left = abs(one) % abs(other)
    return left if one >= 0 else -left


def _comparison(node: ast.expr, names: Mapping[str, object]) -> object:
    found = cast("ast.Compare", node)
    if len(found.ops) != 1:
        raise _CannotTellError
    left, right = _value(found.left, names), _value(found.comparators[0], names)
    op = type(found.ops[0])
    if op is ast.In:
        return _is_in(left, right)
    comparable = (_is_number(left) and _is_number(right)) or (
        type(left) is type(right) and isinstance(left, str | bool)
    )
    if not comparable:
        raise _CannotTellError
    if op is ast.Eq:
        return left == right
    if op is ast.NotEq:
        return left != right
    one, two = cast("float", left), cast("float", right)
    orders: dict[type[ast.cmpop], bool] = {
        ast.Lt: one < two,
        ast.LtE: one <= two,
        ast.Gt: one > two,
        ast.GtE: one >= two,
    }
    if op not in orders:
        raise _CannotTellError
    return orders[op]


def _is_in(item: object, many: object) -> bool:
    if isinstance(many, dict) and isinstance(item, str):
        return item in cast("dict[str, object]", many)
    if isinstance(many, list) and isinstance(item, str):
        values = cast("list[object]", many)
        if all(isinstance(one, str) for one in values):
            return item in values
    if isinstance(many, list) and type(item) is int:
        numbers = cast("list[object]", many)
        if all(type(one) is int for one in numbers):
            return item in numbers
    raise _CannotTellError


def _list(node: ast.expr, names: Mapping[str, object]) -> object:
    return [_value(one, names) for one in cast("ast.List", node).elts]


def _call(node: ast.expr, names: Mapping[str, object]) -> object:
    found = cast("ast.Call", node)
    if found.keywords:
        raise _CannotTellError
    if isinstance(found.func, ast.Name):
        return _function(found.func.id, found.args, names)
    if isinstance(found.func, ast.Attribute):
        return _method(found.func, found.args, names)
    raise _CannotTellError


def _function(name: str, args: list[ast.expr], names: Mapping[str, object]) -> object:
    if len(args) != 1:
        raise _CannotTellError
    if name == "has" and isinstance(args[0], ast.Attribute):
        owner = _value(args[0].value, names)
        if not isinstance(owner, dict):
            raise _CannotTellError
        fields = cast("dict[str, object]", owner)
        if args[0].attr not in fields and args[0].attr in _OF_EVERY_OBJECT:
            raise _CannotTellError
        return args[0].attr in fields and _plain(fields[args[0].attr]) is not None
    if name == "size":
        return _size(_value(args[0], names))
    raise _CannotTellError


def _size(value: object) -> int:
    if isinstance(value, str | list | dict):
        return len(cast("str | list[object]", value))
    raise _CannotTellError


def _method(func: ast.Attribute, args: list[ast.expr], names: Mapping[str, object]) -> object:
    owner = _value(func.value, names)
    if func.attr == "size" and not args:
        return _size(owner)
    if func.attr in MACROS:
        return _macro(func.attr, owner, args, names)
    if func.attr in _CASES and isinstance(owner, str) and not args:
        return owner.translate(_CASES[func.attr])
    if isinstance(owner, str) and len(args) == 1:
        text = _value(args[0], names)
        if not isinstance(text, str):
            raise _CannotTellError
        answers: dict[str, Callable[[], bool | None]] = {
            "startsWith": lambda: owner.startswith(text),
            "endsWith": lambda: owner.endswith(text),
            "contains": lambda: text in owner,
            "matches": lambda: matches(text, owner),
        }
        answer = answers[func.attr]() if func.attr in answers else None
        if answer is not None:
            return answer
    raise _CannotTellError


def _macro(name: str, owner: object, args: list[ast.expr], names: Mapping[str, object]) -> bool:
    if len(args) != 2 or not isinstance(args[0], ast.Name):  # noqa: PLR2004 - a name and a rule
        raise _CannotTellError
    if not isinstance(owner, list | dict):
        raise _CannotTellError
    told = [
        _bool(_value(args[1], {**names, args[0].id: _plain(one)}))
        for one in cast("list[object]", owner)
    ]
    if name == "all":
        return all(told)
    return any(told) if name == "exists" else told.count(True) == 1


_NODES: dict[type[ast.expr], Callable[[ast.expr, Mapping[str, object]], object]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BoolOp: _logic,
    ast.IfExp: _if,
    ast.UnaryOp: _unary,
    ast.BinOp: _arithmetic,
    ast.Compare: _comparison,
    ast.List: _list,
    ast.Call: _call,
}
