"""The errors of the client: one small tree, by who must act."""

from collections.abc import Mapping, Sequence
from datetime import datetime

_OF_THE_CALLER = (401, 403)


class DiscoveryError(Exception):
    """Base class of all errors of this package; never raised itself."""


class ServerUnreachable(DiscoveryError):
    """No answer came: refused, unknown host, TLS failure, timeout, broken connection.

    Attributes:
        url: The URL of the request, without credentials.
    """

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


class RequestRefused(DiscoveryError):
    """The server answered a request, or a call over gRPC, with an error.

    Over gRPC it is a `transports.CallRefused`.

    Attributes:
        url: The URL of the request, without credentials; over gRPC the address.
        status: The HTTP status code; over gRPC the one that HTTP has for its code.
        message: The server's message, or client-go's sentence for that status.
    """

    def __init__(self, message: str, *, url: str, status: int, text: str = "") -> None:
        super().__init__(text or f"GET {url}: {status}: {message}")
        self.url = url
        self.status = status
        self.message = message

    @property
    def is_of_the_caller(self) -> bool:
        """Whether the status is 401 or 403: the caller is refused, not the request."""
        return self.status in _OF_THE_CALLER


class UnexpectedDocument(DiscoveryError):
    """The status is 200, but the body is not the document that its Content-Type promises.

    Over gRPC: the status is OK, but the message makes no sense.

    Attributes:
        url: The URL of the request, without credentials; over gRPC the address.
        problem: What was seen and what was wanted.
    """

    def __init__(self, problem: str, *, url: str, method: str = "GET") -> None:
        super().__init__(f"{method} {url}: {problem}")
        self.url = url
        self.problem = problem


class InvalidConfiguration(DiscoveryError):
    """The configuration cannot be used; the text says which file and key, and what to do."""


class MissingExtra(InvalidConfiguration, ImportError):
    """A package is not installed that only an extra of this one brings."""

    def __init__(self, package: str, extra: str) -> None:
        from apidiscovery_client._installing import install_command  # noqa: PLC0415 - rarely needed

        super().__init__(f"{package} is not installed; run: {install_command(extra)}")


class NotServed(DiscoveryError):
    """No resource of the server has that name.

    Attributes:
        wanted: What was asked for.
        suggestions: Names that are nearly the same and do exist, the nearest first.
        checked_at: The time of the server's last answer.
        unsure: Why the answer may be wrong, by the group-version, or path of a whole part, that
            could not be asked for its resources; empty when the name is certainly not served.
        condition: What else it had to be, such as `with the verb "list"`; empty when nothing.
    """

    def __init__(
        self,
        wanted: str,
        *,
        checked_at: datetime,
        suggestions: Sequence[str] = (),
        unsure: Mapping[str, str] | None = None,
        condition: str = "",
    ) -> None:
        self.wanted = wanted
        self.condition = condition
        self.suggestions = tuple(suggestions)
        self.checked_at = checked_at
        self.unsure = dict(unsure or {})
        super().__init__(self._text())

    def _text(self) -> str:
        text = f'the server doesn\'t have a resource type "{self.wanted}"'
        if self.condition:
            text += f" {self.condition}"
        if self.suggestions:
            text += f", did you mean {' or '.join(self.suggestions)}?"
        if self.unsure:
            reasons = ", ".join(f"{name} ({why})" for name, why in self.unsure.items())
            text += f"; it may be in parts that did not answer: {reasons}"
        return text


class AmbiguousResource(DiscoveryError):
    """Several resources have that name, and none is preferred.

    Attributes:
        wanted: What was asked for.
        candidates: Their full names such as `deployments.v1.apps`, in the server's order.
    """

    def __init__(self, wanted: str, candidates: Sequence[str]) -> None:
        super().__init__(f'"{wanted}" may be any of {", ".join(candidates)}')
        self.wanted = wanted
        self.candidates = tuple(candidates)


class UncertainResource(DiscoveryError):
    """A resource was found, but a better match may be where nothing is known.

    Attributes:
        wanted: What was asked for.
        found: The full name of what was found, such as `deployments.v1.apps`.
        unsure: Why, by the group-version, or path of a whole part, that could not be asked for its
            resources and would come before what was found.
    """

    def __init__(self, wanted: str, found: str, unsure: Mapping[str, str]) -> None:
        reasons = ", ".join(f"{name} ({why})" for name, why in unsure.items())
        super().__init__(
            f'"{wanted}" is {found} as far as is known, '
            f"but a better match may be in parts that did not answer: {reasons}"
        )
        self.wanted = wanted
        self.found = found
        self.unsure = dict(unsure)


class NoCommonVersion(DiscoveryError):
    """There is no version that every server certainly serves.

    Attributes:
        wanted: The group-resource, such as `deployments.apps`.
        served: The versions that each server serves, the most preferred first, by server.
        possible: Versions that no server certainly lacks, the best first.
        unsure: Why it is not known what a server serves, by server.
    """

    def __init__(
        self,
        wanted: str,
        *,
        served: Mapping[str, Sequence[str]],
        possible: Sequence[str] = (),
        unsure: Mapping[str, str] | None = None,
    ) -> None:
        self.wanted = wanted
        self.served = {server: tuple(versions) for server, versions in served.items()}
        self.possible = tuple(possible)
        self.unsure = dict(unsure or {})
        super().__init__(self._text())

    def _text(self) -> str:
        each = ", ".join(
            f"{server}: {' '.join(versions) or 'none'}" for server, versions in self.served.items()
        )
        text = f"no version of {self.wanted} is served everywhere ({each})"
        if self.possible:
            text += f"; it may be {' or '.join(self.possible)}, but it is not known of "
            text += ", ".join(f"{server} ({why})" for server, why in self.unsure.items())
        return text


class StaleGroup(DiscoveryError):
    """The result is the last known state of a group-version that does not answer.

    Attributes:
        group_version: Such as `apps/v1`.
        since: When this was first seen.
        reason: Why it does not answer.
    """

    def __init__(self, group_version: str, *, since: datetime, reason: str) -> None:
        super().__init__(
            f"{group_version} has been stale since {since.isoformat(timespec='seconds')}: {reason}"
        )
        self.group_version = group_version
        self.since = since
        self.reason = reason


class NotYetServed(DiscoveryError):
    """Not every server served it within the timeout.

    Attributes:
        wanted: What was waited for.
        missing: Why, by server: what it answered last.
    """

    def __init__(self, wanted: str, *, timeout_s: float, missing: Mapping[str, str]) -> None:
        where = ", ".join(f"{server}: {why}" for server, why in missing.items())
        super().__init__(f"{wanted} was not served within {timeout_s:g} s ({where})")
        self.wanted = wanted
        self.missing = dict(missing)


class ClientClosed(DiscoveryError):
    """A client was used after, or while, it was closed; the text says which server's it was."""

    def __init__(self, server: str) -> None:
        super().__init__(f"the client of {server} is closed; make another one")
        self.server = server
