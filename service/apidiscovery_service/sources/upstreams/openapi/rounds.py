"""One round for OpenAPI documents: fetches what has changed at an upstream into the store.

Documents are served byte for byte, so that clients read what the upstream wrote. We name them by
their SHA-512; so do most upstreams.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from urllib.parse import urlsplit

import structlog
from apidiscovery_formats.openapi.keys import key_of

from apidiscovery_service.sources.upstreams.body import Body
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import Answer, Exchange
from apidiscovery_service.sources.upstreams.list_reader import GroupVersion, name_of
from apidiscovery_service.sources.upstreams.openapi.answers import (
    INDEX_PATH,
    V2_PATH,
    Index,
    ListedDocument,
    Wanted,
    check,
    read_index,
    split_document,
)
from apidiscovery_service.sources.upstreams.openapi.record import (
    DocumentRef,
    DocumentsWriter,
    OwnV2,
    PackedPieces,
    Published,
    Refused,
    UpstreamForm,
    pack,
)
from apidiscovery_service.sources.upstreams.openapi.v2 import (
    V2Rounds,
    check_document,
    check_room,
    is_taken,
    kept,
    requested,
)
from apidiscovery_service.sources.upstreams.repeated_answers import RepeatedAnswers
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamSpec

# A refused document is retried when its hash changes, or after this time: a proxy may be at fault.
_REFUSED_FOR_S = 3600.0
# An upstream without documents of group-versions may be replaced by one that has them.
_NEWER_FORM_AFTER_S = 600.0
# Save the index after so many documents, so that the first are served before the last is fetched.
_SAVED_AFTER_DOCUMENTS = 16
# A round ends after so many failures.
_MOST_FAILURES = 3

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Progress:
    """The results of a round so far.

    Attributes:
        documents: All documents, the unchanged ones too.
        unsaved: The number of new documents since the index was saved.
    """

    documents: dict[str, DocumentRef]
    refused: dict[str, Refused] = field(default_factory=dict[str, Refused])
    failures: dict[str, UpstreamFailed] = field(default_factory=dict[str, UpstreamFailed])
    unsaved: int = 0


class DocumentRounds:
    """Requests the documents of one upstream, round after round.

    Args:
        spec: The upstream.
        count_bytes: Called with the size of each answer as it was sent.
        writer: Has the known index, and writes documents.
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
        self._repeated_answers = RepeatedAnswers(spec.timing, self._v3)
        self._own_v2 = V2Rounds(spec, self._v2, writer, self._repeated_answers)
        self._failed_before: frozenset[str] = frozenset()
        self._is_retrying = False
        self._refused_until = time.monotonic() + _REFUSED_FOR_S
        self._newer_form_at = time.monotonic() + _NEWER_FORM_AFTER_S

    async def round(self, offered: frozenset[GroupVersion]) -> None:
        """Fetch changed documents of the group-versions that discovery offers, and those above.

        The v2 document beside them comes last; its failure does not fail the round.

        Raises:
            UpstreamFailed: Some request failed; former documents stay.
            Fenced: Another process has taken over.
            StoreUnavailable: Perhaps not everything is written.
        """
        await self._writer.sweep()
        try:
            await self._request(offered)
        except UpstreamFailed as failure:
            if failure.reason is not Reason.EMPTIED:
                self.forget_repeated_answers()
            await self._writer.save(replace(self._writer.published, error=str(failure)))
            raise
        self._repeated_answers.end(INDEX_PATH)
        await self._own_v2.round()

    def forget_repeated_answers(self) -> None:
        """Forget answers that documents are gone: the upstream has failed since."""
        self._repeated_answers.end()

    async def _request(self, offered: frozenset[GroupVersion]) -> None:
        known = self._writer.published
        self._is_retrying = bool(known.refused) and time.monotonic() >= self._refused_until
        is_same = known.offered == _digest_of(offered) and not self._is_retrying
        # An index of an older release does not say whether the document itself is kept.
        is_kept = known.v2_state is not OwnV2.UNKNOWN
        v2_etag = known.etag if is_same and known.form is UpstreamForm.V2 and is_kept else ""
        if (
            is_same
            and known.form in (UpstreamForm.NONE, UpstreamForm.V2)
            and not self._is_newer_form_due()
        ):
            if known.form is UpstreamForm.V2:
                await self._request_v2(offered, v2_etag)
            return
        etag = known.etag if is_same and known.form is UpstreamForm.V3 else ""
        answer = await requested(self._v3, INDEX_PATH, etag)
        if answer.status == HTTPStatus.NOT_MODIFIED:
            await self._writer.save(replace(known, error=""))
        elif answer.status == HTTPStatus.NOT_FOUND:
            await self._request_v2(offered, v2_etag)
        else:
            await self._index(answer, offered, is_same=is_same)

    def _is_newer_form_due(self) -> bool:
        now = time.monotonic()
        is_due = now >= self._newer_form_at
        if is_due:
            self._newer_form_at = now + _NEWER_FORM_AFTER_S
        return is_due

    # Version 3: an index and documents of group-versions.

    async def _index(
        self, answer: Answer, offered: frozenset[GroupVersion], *, is_same: bool
    ) -> None:
        known = self._writer.published
        wanted = Wanted(offered, self._spec.kind is not UpstreamKind.SERVICE)
        known_digest = known.digest if is_same else ""
        read = partial(_read_index, known_digest, wanted, self._prefix)
        digest, index = await self._v3.read(answer, read)
        if index is None:
            await self._writer.save(replace(known, etag=answer.etag, error=""))
            return
        is_empty = offered and not index.documents and not index.odd
        if is_empty and (known.documents or known.form is UpstreamForm.UNKNOWN):
            await self._require_repeated(
                "got an index without documents of the served group-versions", offered
            )
        progress = await self._documents(index)
        self._failed_before = frozenset(progress.failures)
        if self._is_retrying:
            self._refused_until = time.monotonic() + _REFUSED_FOR_S
        now = self._current(progress, index)
        # Without hashes in the index, each document is requested in every round.
        has_hashes = all(listed.hash for listed in index.documents.values())
        is_whole = not progress.failures and has_hashes
        if not progress.failures:
            now = replace(now, error="", etag=answer.etag, digest=digest)
        await self._writer.save(replace(now, offered=_digest_of(offered) if is_whole else ""))
        if progress.failures:
            raise _combined(progress.failures)

    async def _documents(self, index: Index) -> _Progress:
        progress = _Progress(
            {
                key: ref
                for key, ref in self._writer.published.documents.items()
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
        """Return the index of now, in which documents may be missing."""
        return replace(
            self._writer.published,
            form=UpstreamForm.V3,
            offered="",
            documents=dict(sorted(progress.documents.items())),
            refused=dict(sorted(progress.refused.items())),
            odd=index.warnings,
        )

    async def _one(self, key: str, listed: ListedDocument, progress: _Progress) -> None:
        ref = progress.documents.get(key)
        refused = self._writer.published.refused.get(key)
        if refused and refused.listed == listed.hash and not self._is_retrying:
            progress.refused[key] = refused
            return
        if ref is not None and listed.hash and ref.listed == listed.hash:
            return
        others = [other for place, other in progress.documents.items() if place != key]
        try:
            now = await self._document(listed, ref, others)
        except UpstreamFailed as failure:
            if failure.reason in (Reason.MALFORMED, Reason.TOO_LARGE):
                progress.refused[key] = Refused(listed.hash, str(failure))
            else:
                progress.failures[key] = failure
            return
        progress.documents[key] = now
        progress.unsaved += now is not ref

    async def _document(
        self, listed: ListedDocument, ref: DocumentRef | None, others: Iterable[DocumentRef]
    ) -> DocumentRef:
        etag = ref.etag if ref and not listed.hash else ""
        answer = await requested(self._v3, listed.path, etag)
        if ref and answer.status == HTTPStatus.NOT_MODIFIED:
            return ref
        check_document(answer)
        packed = await self._v3.read(answer, _read_document)
        check_room(self._spec, listed.path, packed, others)
        await self._writer.put(packed)
        if listed.hash not in ("", packed.hash):
            _log.info(
                "hash in the index of an upstream is not the SHA-512 of the document",
                upstream=self._spec.name,
                path=listed.path,
                hash=packed.hash,
            )
        return packed.ref(listed.hash, "" if listed.hash else answer.etag)

    # Version 2: one document of everything.

    async def _request_v2(self, offered: frozenset[GroupVersion], etag: str) -> None:
        known = self._writer.published
        answer = await requested(self._v2, V2_PATH, etag)
        if answer.status == HTTPStatus.NOT_MODIFIED:
            await self._writer.save(replace(known, error=""))
        elif answer.status == HTTPStatus.NOT_FOUND:
            if known.documents:
                await self._require_repeated(f"got status 404, as from {V2_PATH}", offered)
            nothing = Published(UpstreamForm.NONE, offered=_digest_of(offered), v2_state=OwnV2.NONE)
            await self._writer.save(nothing)
        else:
            check_document(answer)
            if known.form is UpstreamForm.V3 and known.documents:
                await self._require_repeated("got status 404", offered)
            await self._whole(answer, offered)

    async def _require_repeated(self, seen: str, offered: frozenset[GroupVersion]) -> None:
        """Accept that published documents are gone only after several such answers.

        Raises:
            UpstreamFailed: This answer is not enough.
        """
        path, _ = self._spec.paths[-1]
        if (
            self._spec.kind is UpstreamKind.SERVICE and offered
        ):  # it need not serve the list of its groups
            path = f"/{key_of(*min(offered))}"
        await self._repeated_answers.check(INDEX_PATH, seen, path)

    async def _whole(self, answer: Answer, offered: frozenset[GroupVersion]) -> None:
        known, whole = self._writer.published, _digest_of(offered)
        is_same = (known.form, known.offered) == (UpstreamForm.V2, whole)
        is_same = is_same and known.v2_state is not OwnV2.UNKNOWN
        keys = [key_of(*gv) for gv in sorted(offered)]
        read = partial(_read_whole, known.digest if is_same else "", keys)
        digest, found = await self._v2.read(answer, read)
        if found is None:
            await self._writer.save(replace(known, etag=answer.etag, error=""))
            return
        own, parts = found
        for packed in parts.values():
            await self._writer.put(packed)
        documents = {key: packed.ref(packed.hash) for key, packed in parts.items()}
        now = Published(UpstreamForm.V2, answer.etag, digest, offered=whole, documents=documents)
        if is_taken(self._spec):
            await self._writer.put(own)
            now = kept(now, own, answer)
        else:
            now = replace(now, v2_state=OwnV2.PARTLY)
        await self._writer.save(now)


def _read_index(
    known_digest: str, wanted: Wanted, prefix: str, body: Body
) -> tuple[str, Index | None]:
    """Return the digest of an index and its content; None for known content."""
    digest = _digest(body)
    return digest, None if digest == known_digest else read_index(body, wanted, prefix)


def _read_document(body: Body) -> PackedPieces:
    check(body)
    return pack(body)


def _read_whole(
    known_digest: str, keys: Iterable[str], body: Body
) -> tuple[str, tuple[PackedPieces, Mapping[str, PackedPieces]] | None]:
    """Return the digest of a v2 document, itself and v3 documents of it; None if it is known."""
    digest = _digest(body)
    if digest == known_digest:
        return digest, None
    documents = split_document(body)
    return digest, (pack(body), {key: pack(documents[key]) for key in keys if key in documents})


def _with_limit(spec: UpstreamSpec, limit: int) -> UpstreamSpec:
    """Return an upstream with the limits of requests for documents."""
    limits = replace(spec.limits, exchange_s=spec.limits.openapi_s, body_bytes=limit)
    return replace(spec, limits=limits)


def _digest(body: Body) -> str:
    return hashlib.sha256(body).hexdigest()


def _digest_of(offered: frozenset[GroupVersion]) -> str:
    return _digest("\n".join(name_of(*gv) for gv in sorted(offered)).encode())


def _combined(failures: Mapping[str, UpstreamFailed]) -> UpstreamFailed:
    first = next(iter(failures.values()))
    if len(failures) == 1:
        return first
    return UpstreamFailed(first.reason, f"{len(failures)} documents failed, such as {first}")
