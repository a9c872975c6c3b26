"""The sources: their states, the reasons of failures, advice, and what each one serves."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from apidiscovery_service.access import Role
from apidiscovery_service.core.model import Freshness, Offer
from apidiscovery_service.core.source import CertificateExpiry, SourceState, SourceStatus
from apidiscovery_service.web.paging import paged
from apidiscovery_service.web.view import Page, View, not_found

_SOURCES = 100  # of a page
_GROUP_VERSIONS = 500  # of a page
_MAX_WARNINGS = 200
_HIDDEN = "another source"
_SOON = timedelta(days=30)

_KINDS = {
    "apiservice": "API server behind an APIService",
    "catalog": "built-in APIs",
    "clusters": "clusters of a file",
    "crds": "CustomResourceDefinitions",
    "manifests": "manifest file",
    "registrations": "registration",
    "storage-versions": "API of this server",
    "upstream": "cluster",
}
# Those in trouble first.
_ORDER = (SourceState.STALE, SourceState.PENDING, SourceState.CURRENT)


# The first pattern that is found decides. The texts are those of `sources.upstreams`.
_ADVICE = (
    (r"connection refused", "Start the API server, or correct its address."),
    (r"name not known", "Correct the host name, or the DNS of the machine of this server."),
    (r"certificate has expired", "Renew the certificate of the API server."),
    (r"not speak TLS|speaks TLS|gRPC port", "Correct the scheme or the port of the address."),
    (
        r"certificate|SSL|TLS",
        "Check the certificate of the API server and the certificate authority configured for it.",
    ),
    (
        r"status 401\b",
        "Renew the credentials that are configured for it: the API server does not accept them.",
    ),
    (
        r"status 403\b",
        "Give the user that is configured for it the ClusterRole system:discovery.",
    ),
    (r"status 404\b", "Correct the address: it is not that of a Kubernetes API server."),
    (r"status 3\d\d\b", "Use the address to which the API server redirects."),
    (
        r"status (429|5\d\d)\b",
        "Look at the log of the API server: it is overloaded or has an error.",
    ),
    (
        r"no whole answer|[Tt]imed? ?out",
        "Check the network and firewalls up to the API server, and its load.",
    ),
    (
        r"[Uu]nreachable|[Nn]o route|reset|[Dd]isconnected",
        "Check the network and firewalls up to the API server.",
    ),
    (
        r"Content-Type|want JSON|want kind|want an object|want a document",
        "Check that the address is that of a Kubernetes API server, and not of a proxy.",
    ),
    (r"not polled yet|no process has polled", "Wait: it will be polled soon."),
)
_ADVICE_ON_FILES = "Correct the file. It is read again when it changes."
_OTHER_ADVICE = "Look at the log of this server, and at that of the API server."


@dataclass(frozen=True, slots=True)
class CertificateLine:
    """A certificate of a connection.

    Attributes:
        whose: What it belongs to, in words.
        ends: Until when it is valid.
        has_ended: Whether that is over.
        ends_soon: Whether that is over, or within 30 days.
    """

    whose: str
    ends: datetime
    has_ended: bool
    ends_soon: bool


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A source.

    Attributes:
        status: Its name, state and error.
        kind: What kind of source it is, in words.
        path: Of its page.
        todo: What to do about its error; empty without one.
        served: How many group-versions are served from it.
        shadowed: How many of its group-versions are served from each other source.
        certificates: Of the connection to it.
    """

    status: SourceStatus
    kind: str
    path: str
    todo: str
    served: int
    shadowed: dict[str, int]
    certificates: tuple[CertificateLine, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferLine:
    """A group-version of a source; `shadowed_by` is empty where it is served from this one."""

    group: str
    version: str
    freshness: str
    shadowed_by: str


async def page(view: View) -> Page:
    """Make the page: one source where `name` names it, else all."""
    known = {status.name: status for status in view.statuses()}
    for name in view.served.registry.sources:
        if name not in known and view.sees_source(name):
            known[name] = SourceStatus(name, _state(_offers(view, name)))
    wanted = view.parameter("name")
    if wanted and wanted not in known:
        raise not_found(f"There is no source {wanted[:200]}. The page of the sources lists all.")
    winner_of = _winners(view)
    if wanted:
        return _one(view, known[wanted], winner_of)
    statuses = sorted(known.values(), key=lambda one: (_ORDER.index(one.state), one.name))
    pages = paged(statuses, _SOURCES, view.parameter("page"))
    warnings = view.served.checks.warnings() if view.viewer.role is Role.ADMIN else []
    return Page(
        "sources.html",
        {
            "one": None,
            "lines": [_line(view, status, winner_of) for status in pages.items],
            "pages": pages,
            "troubled": sum(one.state is not SourceState.CURRENT for one in statuses),
            "warnings": warnings[:_MAX_WARNINGS],
            "more_warnings": max(0, len(warnings) - _MAX_WARNINGS),
        },
    )


def _one(view: View, status: SourceStatus, winner_of: Callable[[Offer], str]) -> Page:
    offers = sorted(_offers(view, status.name), key=lambda one: (one.group, one.version.version))
    pages = paged(offers, _GROUP_VERSIONS, view.parameter("page"))
    lines = [
        OfferLine(
            offer.group,
            offer.version.version,
            offer.version.freshness,
            "" if (winner := winner_of(offer)) == status.name else winner,
        )
        for offer in pages.items
    ]
    line = _line(view, status, winner_of)
    return Page("sources.html", {"one": line, "offers": lines, "pages": pages})


def _line(view: View, status: SourceStatus, winner_of: Callable[[Offer], str]) -> SourceLine:
    winners = Counter(map(winner_of, _offers(view, status.name)))
    served = winners.pop(status.name, 0)
    kind = status.name.partition(":")[0]
    return SourceLine(
        status,
        _KINDS.get(kind, "other"),
        f"/ui/sources?{urlencode({'name': status.name})}",
        advice(status.name, status.error),
        served,
        dict(winners.most_common()),
        tuple(_certificates(status.certificates)),
    )


def _certificates(known: CertificateExpiry) -> Iterator[CertificateLine]:
    now = datetime.now(UTC)
    for whose, ends in (("API server", known.server), ("client", known.client)):
        if ends is not None:
            yield CertificateLine(whose, ends, ends <= now, ends <= now + _SOON)


def _offers(view: View, source: str) -> tuple[Offer, ...]:
    contribution = view.served.registry.contribution(source)
    return contribution.offers if contribution else ()


def _state(offers: tuple[Offer, ...]) -> SourceState:
    is_stale = any(offer.version.freshness == Freshness.STALE for offer in offers)
    return SourceState.STALE if is_stale else SourceState.CURRENT


def _winners(view: View) -> Callable[[Offer], str]:
    """Return a function from a group-version to the source that serves it.

    The winners of a group are found once for the page. Hidden sources are not named.
    """
    known: dict[str, dict[str, str]] = {}

    def winner_of(offer: Offer) -> str:
        if offer.group not in known:
            known[offer.group] = {
                version: name if view.sees_source(name) else _HIDDEN
                for version, name in view.served.registry.winners(offer.group).items()
            }
        return known[offer.group].get(offer.version.version, "")

    return winner_of


def advice(source: str, error: str) -> str:
    """Return advice on an error of a source, in one sentence or two; empty without error."""
    if not error:
        return ""
    if source.startswith(("manifests:", "clusters:")):
        return _ADVICE_ON_FILES
    return next((text for pattern, text in _ADVICE if re.search(pattern, error)), _OTHER_ADVICE)
