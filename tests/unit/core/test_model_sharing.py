"""Equal groups are one object, so that many servers of one release take little memory."""

import gc
import weakref

from apidiscovery_service.core.model import Group, Version, shared


def test_equal_groups_become_one_object() -> None:
    (first,) = shared([Group("apps", (Version("v1"),))])
    same, other = shared([Group("apps", (Version("v1"),)), Group("apps", (Version("v2"),))])

    assert same is first
    assert other is not first


def test_an_unused_group_is_freed() -> None:
    (group,) = shared([Group("short.lived", (Version("v1"),))])
    kept = weakref.ref(group)

    del group
    gc.collect()

    assert kept() is None
