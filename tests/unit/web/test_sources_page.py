"""The page of the sources: states, advice, shadowed versions, and permissions of viewers."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from apidiscovery_service.access import Role
from apidiscovery_service.core.model import Contribution, Offer, Precedence, Version
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import CertificateExpiry, SourceState, SourceStatus
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.web.pages import sources
from apidiscovery_service.web.pages.sources import CertificateLine, OfferLine, SourceLine, advice
from apidiscovery_service.web.view import Page, PageError, Served, View, Viewer

EAST = SourceStatus("upstream:east", SourceState.STALE, error="connection refused by 10.0.0.1:6443")
HIDDEN = "upstream:secret"
SCOPED = Viewer("rita", Role.READER, ("east",))


@dataclass
class _Server:
    """The parts of a server that the page uses."""

    registry: Registry = field(default_factory=Registry)
    checks: Checks = field(default_factory=Checks)
    certificates: CertificateExpiry = field(default_factory=CertificateExpiry)

    def statuses(self) -> list[SourceStatus]:
        file = SourceStatus("clusters:/etc/clusters/secret.yaml", SourceState.PENDING, error="bad")
        return [replace(EAST, certificates=self.certificates), SourceStatus(HIDDEN), file]


def _server() -> _Server:
    server = _Server()
    offers = {"v1": Offer("apps", Version("v1"), 1, 1), "v2": Offer("apps", Version("v2"), 1, 1)}
    server.registry.publish(
        Contribution("catalog", Precedence.CATALOG, (offers["v1"], offers["v2"])),
        Contribution("manifests:a.yaml", Precedence.BUILTIN, (offers["v1"],)),
        Contribution(HIDDEN, Precedence.AGGREGATOR, (offers["v2"],)),
    )
    server.checks.add_warnings(lambda: ["manifests: something odd"])
    return server


async def _page(viewer: Viewer, server: _Server | None = None, **parameters: str) -> Page:
    scope, snapshot = cast("Scope", None), cast("EncodedSnapshot", None)
    served = cast("Served", server or _server())
    made = await sources.page(
        View(served, viewer, scope, snapshot, "/ui/sources", parameters=parameters)
    )
    assert isinstance(made, Page)
    return made


def _lines(page: Page) -> dict[str, SourceLine]:
    return {line.status.name: line for line in cast("list[SourceLine]", page.values["lines"])}


async def test_sources_in_trouble_are_first_with_what_to_do() -> None:
    page = await _page(Viewer())
    assert list(_lines(page)) == [
        "upstream:east",
        "clusters:/etc/clusters/secret.yaml",
        "catalog",
        "manifests:a.yaml",
        HIDDEN,
    ]
    assert "Start the API server" in _lines(page)["upstream:east"].todo
    assert page.values["troubled"] == 2
    assert page.values["warnings"] == ["manifests: something odd"]


async def test_what_is_shadowed_is_told_with_the_source_that_is_served() -> None:
    catalog = _lines(await _page(Viewer()))["catalog"]
    assert (catalog.served, catalog.shadowed) == (0, {"manifests:a.yaml": 1, HIDDEN: 1})
    offers = cast("list[OfferLine]", (await _page(Viewer(), name="catalog")).values["offers"])
    assert [(one.version, one.shadowed_by) for one in offers] == [
        ("v1", "manifests:a.yaml"),
        ("v2", HIDDEN),
    ]


@pytest.mark.parametrize(
    ("days", "has_ended", "ends_soon"), [(-1, True, True), (29, False, True), (31, False, False)]
)
async def test_certificates_that_end_soon_are_told(
    days: int, *, has_ended: bool, ends_soon: bool
) -> None:
    ends = datetime.now(UTC) + timedelta(days=days)
    server = _Server(certificates=CertificateExpiry(ends))
    (told,) = _lines(await _page(Viewer(), server))["upstream:east"].certificates
    assert told == CertificateLine("API server", ends, has_ended, ends_soon)


async def test_a_viewer_of_some_clusters_is_told_nothing_of_others() -> None:
    page = await _page(SCOPED)
    assert list(_lines(page)) == ["upstream:east", "catalog", "manifests:a.yaml"]
    assert "secret" not in repr(page.values)
    assert page.values["warnings"] == []
    for name in (HIDDEN, "upstream:none"):
        with pytest.raises(PageError, match="There is no source"):
            await _page(SCOPED, name=name)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param("GET /apis: connection refused by a:1", "Start the API", id="refused"),
        pytest.param("certificate verify failed: certificate has expired", "Renew the", id="old"),
        pytest.param("certificate verify failed: self-signed", "authority", id="certificate"),
        pytest.param("GET /api: got status 401, want 200", "credentials", id="401"),
        pytest.param("GET /api: got status 403, want 200", "system:discovery", id="403"),
        pytest.param("GET /api: got status 404, want 200", "Correct the address", id="404"),
        pytest.param("GET /api: no whole answer within 5 s", "network", id="timeout"),
        pytest.param("name not known: nowhere", "DNS", id="name"),
        pytest.param("nobody has seen this", "log", id="another"),
        pytest.param("", "", id="none"),
    ],
)
def test_each_reason_has_its_advice(error: str, told: str) -> None:
    found = advice("upstream:east", error)
    assert told in found
    assert bool(found) == bool(error)
