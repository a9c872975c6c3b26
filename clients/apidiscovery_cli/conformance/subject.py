"""The server that is checked: its kind, and requests that several checks make."""

import re
from typing import TypeAlias

from apidiscovery_client import DiscoveryError
from apidiscovery_client._http import wrong_port
from apidiscovery_client._negotiation import VERSIONS
from apidiscovery_client.model import GroupVersion
from apidiscovery_formats.media_types import JSON, aggregated, parse_media_type

from apidiscovery_cli.conformance.check import (
    FailedError,
    Node,
    Profile,
    SkippedError,
    document,
    expect,
)
from apidiscovery_cli.conformance.exchange import Asked, Endpoint, NoAnswer, Reply, Session

# As 1.30 is (1, 30).
Release: TypeAlias = tuple[int, int]

OK = 200
UNAUTHENTICATED, FORBIDDEN, NOT_FOUND, UNAVAILABLE = 401, 403, 404, 503

# The first kube-apiserver with aggregated discovery on by default: KEP-3352.
AGGREGATED_SINCE: Release = (1, 27)

_MINOR = re.compile(r"\d+")


def aggregated_type(version: str, media_type: str = JSON) -> str:
    """Return the media type of an aggregated document, for Accept and Content-Type."""
    return aggregated(media_type, version)


def aggregated_version(content_type: str) -> str | None:
    """Return the version of the aggregated document that a Content-Type states, None for none."""
    media_type = parse_media_type(content_type)
    version = media_type.aggregated_version if media_type else None
    return version if version in VERSIONS else None


# kube-aggregator's up to 1.36; later releases ask for the first only. There is no plain fallback.
# Source: kube-aggregator pkg/apiserver/handler_discovery.go, `fetchFreshDiscoveryForService`.
AGGREGATOR_ACCEPT = ",".join(map(aggregated_type, VERSIONS))
AGGREGATOR_HEADERS = (
    ("Accept", AGGREGATOR_ACCEPT),
    ("X-Remote-User", "system:kube-aggregator"),
    ("X-Remote-Group", "system:masters"),
)


class NotAllowed(DiscoveryError):
    """The server refuses us; the message says what to do."""


class NoApiServer(DiscoveryError):
    """The server is not an API server; the message says what was seen."""


class Subject:
    """The server that is checked.

    Attributes:
        session: Makes the requests.
        profile: The kind of server.
        release: The release of Kubernetes that it is or follows, None if unknown.
        version: The version of its aggregated documents, None if it has none.
    """

    def __init__(
        self, endpoint: Endpoint, profile: Profile | None = None, release: Release | None = None
    ) -> None:
        """Detect the kind and release of the server, unless given.

        Raises:
            NoAnswer: It cannot be reached.
            NoApiServer: It is not an API server.
            NotAllowed: It refuses us.
        """
        self.session = Session(endpoint)
        first = self.get("/apis", AGGREGATOR_ACCEPT, *AGGREGATOR_HEADERS[1:])
        if first.status in (UNAUTHENTICATED, FORBIDDEN):
            raise NotAllowed(
                f"GET /apis was answered {first.status}: the checks need to read discovery;"
                " give --token, or --client-certificate and --client-key"
            )
        self._refuse_other_servers(first)
        is_json = first.status == OK and first.content_type.lower().startswith(JSON)
        self.version = aggregated_version(first.content_type) if is_json else None
        self.profile = profile or self._profile()
        self.release = release
        if release is None and self.profile is Profile.KUBE_APISERVER:
            self.release = self._release()

    def _refuse_other_servers(self, first: Reply) -> None:
        """Raise `NoApiServer` for a web server, and for a port that requires TLS."""
        url = self.session.url
        if problem := wrong_port.of_refusal(first.body, url):
            raise NoApiServer(f"{url} is not an API server: {problem}")
        if first.is_html and (plain := self.get("/apis", JSON)).is_html:
            seen = f"{plain.status}, {plain.content_type}"
            raise NoApiServer(f"{url} is not an API server: GET /apis returns a web page ({seen})")

    def _profile(self) -> Profile:
        """Return the kind of server: only kube-apiserver has the core group."""
        try:
            reply = self.get("/api")
            versions = document(reply)["versions"].items if reply.status == OK else []
        except (FailedError, NoAnswer):
            versions = []
        return Profile.KUBE_APISERVER if versions else Profile.EXTENSION

    def _release(self) -> Release | None:
        try:
            answer = document(self.get("/version"))
            major, minor = (_MINOR.match(answer[name].text) for name in ("major", "minor"))
        except (FailedError, NoAnswer):
            return None
        return (int(major[0]), int(minor[0])) if major and minor else None

    def is_before(self, release: Release) -> bool:
        """Return whether it is a kube-apiserver known to be older than a release."""
        is_known = self.profile is Profile.KUBE_APISERVER and self.release is not None
        return is_known and (self.release or release) < release

    @property
    def document_paths(self) -> tuple[str, ...]:
        """The paths at which it must serve discovery."""
        return ("/api", "/apis") if self.profile is Profile.KUBE_APISERVER else ("/apis",)

    def get(
        self,
        target: str,
        accept: str | None = None,
        *more: tuple[str, str],
        method: str = "GET",
        again: bool = False,
    ) -> Reply:
        """Return the answer to a request; raise `NoAnswer` if there is none."""
        headers = more if accept is None else (("Accept", accept), *more)
        return self.session.ask(Asked(method, target, headers), again=again)

    def existing(self, target: str, accept: str | None = None) -> Reply:
        """Return an answer; raise `FailedError` unless its status is 200."""
        reply = self.get(target, accept)
        expect(reply.status == OK, reply, "200")
        return reply

    @property
    def accept(self) -> str:
        """The Accept field that asks for aggregated documents alone.

        Raises:
            SkippedError: It has none.
        """
        if self.version is None:
            raise SkippedError("the server has no aggregated discovery")
        return aggregated_type(self.version)

    def aggregated(self, path: str = "/apis", *more: tuple[str, str], again: bool = False) -> Reply:
        """Return the answer to a request that accepts only an aggregated document.

        Raises:
            SkippedError: The server has none.
        """
        return self.get(path, self.accept, *more, again=again)

    def documents(self) -> list[Reply]:
        """Return the aggregated document of each path."""
        replies = [self.aggregated(path) for path in self.document_paths]
        for reply in replies:
            expect(reply.status == OK, reply, "200 and the aggregated document")
        return replies

    def etag(self, reply: Reply) -> str:
        """Return the ETag of an answer.

        Raises:
            SkippedError: It has none; another check covers that.
        """
        etag = reply.value("etag")
        if not etag:
            raise SkippedError("the aggregated document has no ETag")
        return etag

    def versions(self) -> list[tuple[GroupVersion, bool]]:
        """Return the group-versions of all named groups, and whether each is Stale, in order."""
        if self.version is None:
            return [(gv, False) for gv in self.listed() if not self.is_unserved(gv)]
        reply = self.aggregated()
        return [
            (GroupVersion(group["metadata"]["name"].text, version["version"].text), stale(version))
            for group in document(reply)["items"].items
            for version in group["versions"].items
        ]

    def listed(self) -> list[GroupVersion]:
        """Return the group-versions of the unaggregated list, in order."""
        groups = document(self.existing("/apis", JSON))["groups"].items
        named = [(group["name"].text, group["versions"].items) for group in groups]
        return [
            GroupVersion(name, version["version"].text)
            for name, versions in named
            for version in versions
        ]

    def is_unserved(self, gv: GroupVersion) -> bool:
        """Return whether a group-version of the unaggregated list answers 404 and may do so.

        kube-apiserver lists the versions of a definition whose names another one has taken, and
        answers 404 at them. Source: apiextensions-apiserver, crdregistration_controller.go
        `handleVersionUpdate` makes an APIService of each, customresource_discovery_controller.go
        `sync` a handler of those that are established.
        """
        if self.profile is not Profile.KUBE_APISERVER:
            return False
        return self.get(gv.path, JSON).status == NOT_FOUND

    def current_versions(self) -> list[GroupVersion]:
        """Return the group-versions that are not Stale.

        Raises:
            SkippedError: There is none.
        """
        found = [gv for gv, is_stale in self.versions() if not is_stale]
        if not found:
            raise SkippedError("the server has no group-version that is Current")
        return found


def stale(version: Node) -> bool:
    """Return whether a version of an aggregated document is Stale."""
    return version["freshness"].value == "Stale"
