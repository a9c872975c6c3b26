"""How deep and how large a schema may be that is walked through."""

from typing import Any

from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path

# Containers within containers in a schema. Each level of a schema takes two or three, and the
# deepest of real definitions has 34. It keeps recursion, here and in whoever reads the document,
# far from its end.
MAX_DEPTH = 150
# Values in a schema, counting those in defaults and enumerations. Kubernetes accepts objects of
# 1.5 MiB (etcd), which hold 150,000; the largest real schema has 24,000.
MAX_VALUES = 200_000
# What is noted of one kind; each has a path, and a million long paths are a gigabyte.
MAX_PROBLEMS = 1000

_CONTAINERS = frozenset({dict, list})


def check_limits(value: object, path: Path) -> None:
    """See that a value of a stranger's is neither too deep nor too large to be walked through.

    Raises:
        InvalidOpenAPI: It is; the path is that of the whole value.
    """
    level: list[Any] = [value]
    count = 1
    for _ in range(MAX_DEPTH + 1):
        members: list[Any] = []
        for one in level:
            members += one.values() if type(one) is dict else one if type(one) is list else ()
        count += len(members)
        if count > MAX_VALUES:
            raise InvalidOpenAPI(path, f"has more than {MAX_VALUES} values")
        level = [one for one in members if type(one) in _CONTAINERS]
        if not level:
            return
    raise InvalidOpenAPI(path, f"is nested more than {MAX_DEPTH} levels deep")
