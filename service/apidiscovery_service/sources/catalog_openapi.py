"""The OpenAPI documents of Kubernetes' own APIs, packaged as far as there are any.

`catalog_data/openapi/README.md` says where they are from.
"""

import asyncio
from functools import cache
from importlib.resources import files

import zstandard

from apidiscovery_service.openapi.recipe import Recipe

_DATA = files("apidiscovery_service.sources") / "catalog_data" / "openapi"
_SUFFIX = ".json.zst"


def catalog_recipe(key: str) -> Recipe | None:
    """Return how the packaged document of a path such as `apis/apps/v1` is had; None for none."""
    return Recipe(("catalog", key), lambda: _unpacked(key)) if key in catalog_keys() else None


@cache
def catalog_keys() -> frozenset[str]:
    """Return the paths, without leading slash, of which there are documents."""
    names = (entry.name for entry in _DATA.iterdir())
    return frozenset(
        name.removesuffix(_SUFFIX).replace("__", "/") for name in names if name.endswith(_SUFFIX)
    )


async def _unpacked(key: str) -> bytes:
    packed = _DATA / (key.replace("/", "__") + _SUFFIX)
    return await asyncio.to_thread(lambda: zstandard.decompress(packed.read_bytes()))
