"""The v2 document of an upstream, fetched as it is, beside the v3 documents.

A kube-apiserver makes its v2 document apart from v3 documents, and some seconds later. So it is
requested when v3 documents have changed, again until an answer says that it has not, and then a few
times an hour; always with its ETag.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from time import monotonic
from typing import cast

from apidiscovery_formats.media_types import JSON, parse_media_type

from apidiscovery_service.sources.upstreams.body import Body, parsed
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, attempt
from apidiscovery_service.sources.upstreams.fetch import OPENAPI_USER, Answer, Exchange
from apidiscovery_service.sources.upstreams.openapi.answers import V2_PATH
from apidiscovery_service.sources.upstreams.openapi.record import (
    DocumentRef,
    DocumentsWriter,
    OwnV2,
    PackedPieces,
    Published,
    UpstreamForm,
    pack,
)
from apidiscovery_service.sources.upstreams.repeated_answers import RepeatedAnswers
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamSpec, VersionFilter

_EVERY_S = 600.0

# Documents are JSON, but old kube-apiservers call them plain text.
_TYPES = (JSON, "text/plain")


async def requested(exchange: Exchange, path: str, etag: str) -> Answer:
    """Return the answer to a GET: of status 200, 404 or, if there is an ETag, 304.

    Raises:
        UpstreamFailed: There is no such answer.
    """
    answer = await exchange.get(path, JSON, etag=etag, as_master=False, user=OPENAPI_USER)
    is_known = bool(etag) and answer.status == HTTPStatus.NOT_MODIFIED
    if not is_known and answer.status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
        raise answer.wrong("200, 304 or 404")
    return answer


def check_document(answer: Answer) -> None:
    """Check that an answer may be an OpenAPI document.

    Raises:
        UpstreamFailed: It is of another status or type.
    """
    media_type = parse_media_type(answer.content_type)
    if answer.status != HTTPStatus.OK or media_type is None or media_type.range not in _TYPES:
        raise answer.wrong(JSON)


def check_room(
    spec: UpstreamSpec, path: str, packed: PackedPieces, others: Iterable[DocumentRef]
) -> None:
    """Check that a document fits, with the others of its upstream, into their limit.

    Raises:
        UpstreamFailed: It does not fit.
    """
    limit = spec.limits.openapi_kept_bytes
    if packed.packed_size + sum(other.packed_size for other in others) > limit:
        text = f"GET {path}: all documents together exceed {limit} bytes, compressed"
        raise UpstreamFailed(Reason.TOO_LARGE, text)


def is_untyped(answer: Answer) -> bool:
    """Return whether a document has the type of plain text, as before kube-apiserver 1.27."""
    media_type = parse_media_type(answer.content_type)
    return media_type is not None and media_type.range != JSON


def is_taken(spec: UpstreamSpec) -> bool:
    """Return whether the v2 document of an upstream is kept: not if a filter hides parts of it."""
    return spec.kind is not UpstreamKind.SERVICE and spec.filter == VersionFilter()


class V2Rounds:
    """Requests the v2 document of an upstream that has v3 documents, round after round.

    Args:
        spec: The upstream.
        exchange: Sends the requests.
        writer: Has the known index, and writes documents.
        repeated_answers: Counts answers that the document is gone.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        exchange: Exchange,
        writer: DocumentsWriter,
        repeated_answers: RepeatedAnswers,
    ) -> None:
        self._spec = spec
        self._exchange = exchange
        self._writer = writer
        self._failures = 0
        self._due_at = 0.0
        self._repeated_answers = repeated_answers
        # The v3 documents at the last request, and whether the v2 document may still follow them.
        self._requested_with: Mapping[str, DocumentRef] | None = None
        self._may_follow = True

    async def round(self) -> None:
        """Request the document if it may have changed; after a failure the former one stays.

        Raises:
            Fenced: Another process has taken over.
            StoreUnavailable: Perhaps it is not written.
        """
        known = self._writer.published
        if known.form is not UpstreamForm.V3 or self._spec.kind is UpstreamKind.SERVICE:
            return
        if not is_taken(self._spec):
            await self._writer.save(replace(known, v2_state=OwnV2.PARTLY, v2=None))
            return
        if known.documents != self._requested_with:
            self._requested_with, self._may_follow, self._due_at = known.documents, True, 0.0
        if monotonic() < self._due_at:
            return
        now = await attempt(self._requested(known), self._spec.name, f"GET {V2_PATH}")
        if isinstance(now, UpstreamFailed):
            if now.reason is not Reason.EMPTIED:
                self._repeated_answers.end(V2_PATH)
            self._failures += 1
            self._due_at = monotonic() + self._spec.timing.openapi_pause_s(self._failures)
            await self._writer.save(replace(self._writer.published, v2_error=str(now)))
            return
        self._repeated_answers.end(V2_PATH)
        self._failures, is_same = 0, now.v2_state is known.v2_state and now.v2 == known.v2
        self._due_at = monotonic() + _EVERY_S if is_same and not self._may_follow else 0.0
        self._may_follow = False
        await self._writer.save(now)

    async def _requested(self, known: Published) -> Published:
        answer = await requested(self._exchange, V2_PATH, known.v2.etag if known.v2 else "")
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return replace(known, v2_error="")
        if answer.status == HTTPStatus.NOT_FOUND:
            if known.v2:
                path, _ = self._spec.paths[-1]
                await self._repeated_answers.check(V2_PATH, "got status 404", path)
            return replace(known, v2_state=OwnV2.NONE, v2=None, v2_error="")
        check_document(answer)
        packed = await self._exchange.read(answer, _read_v2)
        check_room(self._spec, V2_PATH, packed, known.documents.values())
        await self._writer.put(packed)
        return kept(self._writer.published, packed, answer)


def kept(published: Published, packed: PackedPieces, answer: Answer) -> Published:
    """Return the index with a v2 document that is in the store."""
    return replace(
        published,
        v2_state=OwnV2.KEPT,
        v2=packed.ref("", answer.etag),
        v2_error="",
        is_untyped=is_untyped(answer),
    )


def _read_v2(body: Body) -> PackedPieces:
    document = parsed(body)
    if not isinstance(document, dict):
        raise UpstreamFailed(Reason.MALFORMED, "want an object, got another value")
    if cast("dict[str, object]", document).get("swagger") != "2.0":
        raise UpstreamFailed(Reason.MALFORMED, "swagger: want '2.0', got another or nothing")
    return pack(body)
