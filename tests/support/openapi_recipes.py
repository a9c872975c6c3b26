"""Fake recipes of documents, which count how often each is made, and fake workers."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import thread_time
from typing import Any, Self

import zstandard
from apidiscovery_formats.openapi.keys import group_of
from apidiscovery_releases import Release
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.body import pack
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.openapi.v2.merge import Merged, TooLarge
from waiting import WITHIN_S

APPS_KEY = "apis/apps/v1"
APPS_DOCUMENT = b'{"openapi":"3.0.0","info":{"title":"apps","version":"v1"},"paths":{}}'


@dataclass
class FakeRecipes:
    """Documents by group and key; assigning another text changes one.

    Attributes:
        makes: How often each was made, by key.
        looked_at: How often each group was asked for.
        at_once: The most that were made at the same time.
        gate: Nothing is made before this event is set; None for no limit.
        failing: The errors of documents that cannot be made, by key.
        stated: Hashes that are known beforehand, by key.
        hanging: Keys of documents that are not finished before `released` is set.
        discovery: The beginning of documents that replace others.
    """

    texts: dict[str, dict[str, bytes]]
    shared: dict[str, bytes] = field(default_factory=dict[str, bytes])
    makes: Counter[str] = field(default_factory=Counter[str])
    looked_at: Counter[str] = field(default_factory=Counter[str])
    at_once: int = 0
    gate: asyncio.Event | None = None
    failing: dict[str, Exception] = field(default_factory=dict[str, Exception])
    stated: dict[str, str] = field(default_factory=dict[str, str])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    fallbacks: bool = True
    hanging: set[str] = field(default_factory=set[str])
    released: asyncio.Event = field(default_factory=asyncio.Event)
    discovery: str = ""
    _under_way: int = 0
    _begun: asyncio.Event = field(default_factory=asyncio.Event)

    def groups(self) -> Iterable[str]:
        return list(self.texts)

    def of_group(self, group: str) -> Mapping[str, Recipe]:
        self.looked_at[group] += 1
        return self._recipes(self.texts.get(group, {}))

    def common(self) -> Mapping[str, Recipe]:
        return self._recipes(self.shared)

    async def until_begun(self, key: str, times: int = 1) -> None:
        """Wait until making a document has begun `times` times."""
        while self.makes[key] < times:
            self._begun.clear()
            await self._begun.wait()

    def _recipes(self, texts: Mapping[str, bytes]) -> dict[str, Recipe]:
        return {key: self._recipe(key, text) for key, text in texts.items()}

    def _recipe(self, key: str, text: bytes) -> Recipe:
        async def make() -> bytes:
            self.makes[key] += 1
            self._begun.set()
            self._under_way += 1
            self.at_once = max(self.at_once, self._under_way)
            try:
                if self.gate:
                    await self.gate.wait()
                await asyncio.sleep(0)
                if key in self.hanging:
                    await self.released.wait()
                if key in self.failing:
                    raise self.failing[key]
                return text
            finally:
                self._under_way -= 1

        def instead(reason: str) -> Recipe:
            text = f'{{{self.discovery}"why":"{reason}"}}'.encode()
            return Recipe(("instead", text), lambda: _ready(text))

        note = self.notes.get(key, "")
        return Recipe(
            text, make, self.stated.get(key, ""), note, instead if self.fallbacks else None
        )


async def _ready(text: bytes) -> bytes:
    await asyncio.sleep(0)
    return text


def _open() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class FakeWorkers:
    """Replaces the workers; a result names its inputs.

    Attributes:
        calls: How often each function was called: `v3` and `v2` encode, `merged` merges.
        merging: Set when merging begins.
        go_on: Merging waits for this event; it is set at first.
    """

    calls: Counter[str] = field(default_factory=Counter[str])
    merging: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=_open)

    async def run(self, function: Callable[..., object], *args: Any) -> object:  # noqa: ANN401 - of any function
        name = function.__name__.removeprefix("encode_")
        self.calls[name] += 1
        if name == "merged":
            return await self._merged(*args)
        await asyncio.sleep(0)
        return b"%s:%s" % (name.encode(), args[0])

    async def _merged(
        self,
        documents: Sequence[tuple[str, bytes]],
        info: Mapping[str, JSONValue],
        max_bytes: int,
        packaged: Collection[str],
        _release: Release,
    ) -> Merged:
        assert not packaged
        self.merging.set()
        async with asyncio.timeout(WITHIN_S):
            await self.go_on.wait()
        parts: list[bytes] = []
        for key, packed in documents:
            parts.append(key.encode() + b"=" + zstandard.decompress(packed))
            if sum(map(len, parts)) > max_bytes:
                raise TooLarge(f"it would have more than {max_bytes} bytes")
        text = str(info["title"]).encode() + b"|" + b"|".join(parts)
        return Merged(pack(text), ["a note of merging"])


class LoopLag:
    """Measures the longest step of the event loop, in processor time.

    Garbage is not collected meanwhile: the time of a collection depends on the tests before.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        gc.disable()
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        gc.enable()
        if self._task:
            self._task.cancel()

    async def _watch(self) -> None:
        last = thread_time()
        while True:
            await asyncio.sleep(0)
            now = thread_time()
            self.longest_s = max(self.longest_s, now - last)
            last = now


def recipes_of(*keys: str) -> FakeRecipes:
    """Return recipes of documents that contain their key."""
    recipes = FakeRecipes({})
    for key in keys:
        recipes.texts.setdefault(group_of(key) or "", {})[key] = b'{"of":"%s"}' % key.encode()
    return recipes
