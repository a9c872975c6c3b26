"""StorageVersions as REST clients send them, and their errors."""

from collections.abc import Coroutine
from datetime import UTC, datetime

import pytest
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import metadata_of

PREFIX = "storageversions/"
NAME = "apps.deployments"


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def named(name: str = NAME, **metadata: JSONValue) -> Object:
    return {"metadata": {"name": name, **metadata}}


def changed(value: Object, **metadata: JSONValue) -> Object:
    """Return the object with other metadata; None leaves a field out."""
    merged = {**metadata_of(value), **metadata}
    return value | {"metadata": {k: v for k, v in merged.items() if v is not None}}


async def refusal(doing: Coroutine[object, object, object]) -> ObjectError:
    with pytest.raises(ObjectError) as caught:
        await doing
    return caught.value


def said(error: ObjectError) -> tuple[int, str, str]:
    return (error.code, error.reason, error.message)
