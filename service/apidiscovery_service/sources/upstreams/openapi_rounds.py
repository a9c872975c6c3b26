"""One round for OpenAPI documents: what an upstream publishes is brought up to date in the store.

Documents are passed on as they are, byte for byte, so a client reads what the upstream wrote. What
they are named by here is their own SHA-512, which mostly is what the upstream names them by, too.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from urllib.parse import urlsplit

import structlog
from apidiscovery_formats.media_types import JSON, parse_media_type

from apidiscovery_service.sources.upstreams.body import Body
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import OPENAPI_USER, Answer, Exchange
from apidiscovery_service.sources.upstreams.legacy import GroupVersion, name_of
from apidiscovery_service.sources.upstreams.openapi_answers import (
    INDEX_PATH,
    V2_PATH,
    Index,
    Listed,
    Wanted,
    check,
    key_of,
    read_index,
    split_document,
)
from apidiscovery_service.sources.upstreams.openapi_record import (
    DocumentsWriter,
    Form,
    Kept,
    Packed,
    Published,
    Refused,
    pack,
)
from apidiscovery_service.sources.upstreams.spec import Kind, UpstreamSpec

# Documents are JSON, whatever they are called: old kube-apiservers say plain text.
_TYPES = (JSON, "text/plain")
# What is refused stays refused while its hash does, but not for ever: the fault may be a proxy's.
_REFUSED_FOR_S = 3600.0
# An upstream without documents of group-versions may be replaced by one that has them.
_NEWER_FORM_AFTER_S = 600.0
# Of an upstream with many documents some are served before the last is there.
_SAVED_AFTER_DOCUMENTS = 16
# One that fails does not keep others from being asked for; many do.
_MOST_FAILURES = 3

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Progress:
    """What a round has brought so far."""

    documents: dict[str, Kept] = field(default_factory=dict[str, Kept])
    refused: dict[str, Refused] = field(default_factory=dict[str, Refused])
    failures: dict[str, UpstreamFailed] = field(default_factory=dict[str, UpstreamFailed])
    unsaved: int = 0
    packed_size: int = 0

    def take(self, documents: Mapping[str, Kept]) -> None:
        """Begin with documents that are there."""
        self.documents = dict(documents)
        self.packed_size = sum(kept.packed_size for kept in documents.values())

    def put(self, key: str, kept: Kept) -> None:
        """Have another document for a path."""
        before = self.documents.get(key)
        self.packed_size += kept.packed_size - (before.packed_size if before else 0)
        self.documents[key] = kept
        self.unsaved += kept is not before


class DocumentRounds:
    """Asks one upstream for its documents, again and again.

    Args:
        spec: The upstream.
        count_bytes: Told the size of each answer as it was sent.
        writer: What is known, and where it is kept.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        count_bytes: Callable[[int], None],
        writer: DocumentsWriter,
    ) -> None:
        self._spec = spec
        self._writer = writer
        self._prefix = urlsplit(spec.endpoint.url).path
        self._v3, self._v2 = (
            Exchange(_with_limit(spec, limit), count_bytes)
            for limit in (spec.limits.openapi_bytes, spec.limits.openapi_v2_bytes)
        )
        self._failed_before: frozenset[str] = frozenset()
        self._is_missing = self._is_retrying = False
        self._refused_until = time.monotonic() + _REFUSED_FOR_S
        self._newer_form_at = time.monotonic() + _NEWER_FORM_AFTER_S

    async def round(self, offered: frozenset[GroupVersion]) -> None:
        """Ask for what is new of the group-versions that discovery offers, and of what is above.

        Raises:
            UpstreamFailed: Not everything could be had; what was kept before stays.
            Fenced: Somebody else has taken over.
            StoreUnavailable: Perhaps not everything is kept.
        """
        await self._writer.sweep()
        try:
            await self._ask(offered)
        except UpstreamFailed as failure:
            await self._writer.save(replace(self._writer.published, error=str(failure)))
            raise

    async def _ask(self, offered: frozenset[GroupVersion]) -> None:
        known = self._writer.published
        self._is_retrying = bool(known.refused) and time.monotonic() >= self._refused_until
        is_same = known.offered == _digest_of(offered) and not self._is_retrying
        v2_etag = known.etag if is_same and known.form is Form.V2 else ""
        if is_same and known.form in (Form.NONE, Form.V2) and not self._is_newer_form_due():
            if known.form is Form.V2:
                await self._ask_v2(offered, v2_etag)
            return
        etag = known.etag if is_same and known.form is Form.V3 else ""
        answer = await self._get(self._v3, INDEX_PATH, etag)
        match answer.status:
            case HTTPStatus.NOT_MODIFIED if etag:
                await self._writer.save(replace(known, error=""))
            case HTTPStatus.NOT_FOUND:
                await self._ask_v2(offered, v2_etag)
            case HTTPStatus.OK:
                await self._index(answer, offered, is_same=is_same)
            case _:
                raise answer.wrong("200, 304 or 404")

    def _is_newer_form_due(self) -> bool:
        now = time.monotonic()
        is_due = now >= self._newer_form_at
        if is_due:
            self._newer_form_at = now + _NEWER_FORM_AFTER_S
        return is_due

    async def _get(self, exchange: Exchange, path: str, etag: str) -> Answer:
        return await exchange.get(path, JSON, etag=etag, as_master=False, user=OPENAPI_USER)

    # Documents of their own.

    async def _index(
        self, answer: Answer, offered: frozenset[GroupVersion], *, is_same: bool
    ) -> None:
        known = self._writer.published
        wanted = Wanted(offered, self._spec.kind is not Kind.SERVICE)
        known_digest = known.digest if is_same else ""
        read = partial(_read_index, known_digest, wanted, self._prefix)
        digest, index = await self._v3.read(answer, read)
        if index is None:
            await self._writer.save(replace(known, etag=answer.etag, error=""))
            return
        self._is_missing = False
        progress = await self._documents(index)
        self._failed_before = frozenset(progress.failures)
        if self._is_retrying:
            self._refused_until = time.monotonic() + _REFUSED_FOR_S
        now = self._current(progress, index)
        # Who states no hashes has to be asked for each document in every round.
        is_told = all(listed.hash for listed in index.documents.values())
        is_whole = not progress.failures and is_told
        if not progress.failures:
            now = replace(now, error="", etag=answer.etag, digest=digest)
        await self._writer.save(replace(now, offered=_digest_of(offered) if is_whole else ""))
        if progress.failures:
            raise _several(progress.failures)

    async def _documents(self, index: Index) -> _Progress:
        known, progress = self._writer.published, _Progress()
        progress.take(
            {
                key: kept
                for key, kept in known.documents.items()
                if key in index.documents or key in index.odd
            }
        )
        order = sorted(index.documents, key=lambda key: (key in self._failed_before, key))
        for key in order:
            await self._one(key, index.documents[key], progress)
            if len(progress.failures) >= _MOST_FAILURES:
                break
            if progress.unsaved >= max(_SAVED_AFTER_DOCUMENTS, len(progress.documents) // 4):
                progress.unsaved = 0
                await self._writer.save(self._current(progress, index))
        return progress

    def _current(self, progress: _Progress, index: Index) -> Published:
        """Return what is known now, and that something may be missing."""
        return replace(
            self._writer.published,
            form=Form.V3,
            offered="",
            documents=dict(sorted(progress.documents.items())),
            refused=dict(sorted(progress.refused.items())),
            odd=index.warnings,
        )

    async def _one(self, key: str, listed: Listed, progress: _Progress) -> None:
        kept = progress.documents.get(key)
        refused = self._writer.published.refused.get(key)
        if refused and refused.listed == listed.hash and not self._is_retrying:
            progress.refused[key] = refused
            return
        if kept is not None and listed.hash and kept.listed == listed.hash:
            return
        try:
            others = progress.packed_size - (kept.packed_size if kept else 0)
            now = await self._document(listed, kept, self._spec.limits.openapi_kept_bytes - others)
        except UpstreamFailed as failure:
            if failure.reason in (Reason.MALFORMED, Reason.TOO_LARGE):
                progress.refused[key] = Refused(listed.hash, str(failure))
            else:
                progress.failures[key] = failure
            return
        progress.put(key, now)

    async def _document(self, listed: Listed, kept: Kept | None, room: int) -> Kept:
        etag = kept.etag if kept and not listed.hash else ""
        answer = await self._get(self._v3, listed.path, etag)
        if kept and etag and answer.status == HTTPStatus.NOT_MODIFIED:
            return kept
        if answer.status != HTTPStatus.OK or not _is_document(answer):
            raise answer.wrong(JSON)
        packed = await self._v3.read(answer, _read_document)
        if packed.packed_size > room:
            limit = self._spec.limits.openapi_kept_bytes
            text = f"GET {listed.path}: all documents together exceed {limit} bytes, compressed"
            raise UpstreamFailed(Reason.TOO_LARGE, text)
        await self._writer.put(packed)
        if listed.hash not in ("", packed.hash):
            _log.info(
                "upstream names a document by something else than its SHA-512",
                upstream=self._spec.name,
                path=listed.path,
                hash=packed.hash,
            )
        return _kept(packed, listed.hash, "" if listed.hash else answer.etag)

    # One document of everything.

    async def _ask_v2(self, offered: frozenset[GroupVersion], etag: str) -> None:
        known = self._writer.published
        answer = await self._get(self._v2, V2_PATH, etag)
        match answer.status:
            case HTTPStatus.NOT_MODIFIED if etag:
                await self._writer.save(replace(known, error=""))
            case HTTPStatus.NOT_FOUND:
                self._doubt(f"{INDEX_PATH} and {V2_PATH}")
                await self._writer.save(Published(Form.NONE, offered=_digest_of(offered)))
            case HTTPStatus.OK if _is_document(answer):
                if known.form is Form.V3:
                    self._doubt(INDEX_PATH)
                await self._whole(answer, offered)
            case HTTPStatus.OK:
                raise answer.wrong(JSON)
            case _:
                raise answer.wrong("200, 304 or 404")

    def _doubt(self, paths: str) -> None:
        """Take it that what was published before is gone only when that is said twice.

        A proxy in front of a server that is down answers 404 to everything, and one server of
        several may be older than the others while they are replaced.

        Raises:
            UpstreamFailed: It is said for the first time.
        """
        is_said_twice = self._is_missing
        self._is_missing = bool(self._writer.published.documents) and not is_said_twice
        if self._is_missing:
            raise UpstreamFailed(
                Reason.STATUS, f"GET {paths}: got status 404, which nothing else confirms"
            )

    async def _whole(self, answer: Answer, offered: frozenset[GroupVersion]) -> None:
        known, whole = self._writer.published, _digest_of(offered)
        is_same = (known.form, known.offered) == (Form.V2, whole)
        keys = [key_of(gv) for gv in sorted(offered)]
        self._is_missing = False
        read = partial(_read_whole, known.digest if is_same else "", keys)
        digest, found = await self._v2.read(answer, read)
        if found is None:
            await self._writer.save(replace(known, etag=answer.etag, error=""))
            return
        for packed in found.values():
            await self._writer.put(packed)
        documents = {key: _kept(packed, packed.hash) for key, packed in found.items()}
        await self._writer.save(
            Published(Form.V2, answer.etag, digest, offered=whole, documents=documents)
        )


def _read_index(
    known_digest: str, wanted: Wanted, prefix: str, body: Body
) -> tuple[str, Index | None]:
    """Return the digest of an index and what is listed; None for what is known already."""
    digest = _digest(body)
    return digest, None if digest == known_digest else read_index(body, wanted, prefix)


def _read_document(body: Body) -> Packed:
    check(body)
    return pack(body)


def _read_whole(
    known_digest: str, keys: Iterable[str], body: Body
) -> tuple[str, Mapping[str, Packed] | None]:
    """Return the digest of a v2 document and v3 ones made of it; None for what is known already."""
    digest = _digest(body)
    if digest == known_digest:
        return digest, None
    documents = split_document(body)
    return digest, {key: pack(documents[key]) for key in keys if key in documents}


def _is_document(answer: Answer) -> bool:
    media_type = parse_media_type(answer.content_type)
    return media_type is not None and media_type.range in _TYPES


def _with_limit(spec: UpstreamSpec, limit: int) -> UpstreamSpec:
    """Return an upstream as it is asked for documents."""
    limits = replace(spec.limits, exchange_s=spec.limits.openapi_s, body_bytes=limit)
    return replace(spec, limits=limits)


def _kept(packed: Packed, listed: str, etag: str = "") -> Kept:
    return Kept(packed.hash, packed.size, len(packed.pieces), listed, etag, packed.packed_size)


def _digest(body: Body) -> str:
    return hashlib.sha256(body).hexdigest()


def _digest_of(offered: frozenset[GroupVersion]) -> str:
    return _digest("\n".join(name_of(*gv) for gv in sorted(offered)).encode())


def _several(failures: Mapping[str, UpstreamFailed]) -> UpstreamFailed:
    first = next(iter(failures.values()))
    if len(failures) == 1:
        return first
    return UpstreamFailed(first.reason, f"{len(failures)} documents failed, such as {first}")
