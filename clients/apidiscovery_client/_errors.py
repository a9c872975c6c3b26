"""The errors of the client: one small tree, told apart by who must act."""

from collections.abc import Mapping


class DiscoveryError(Exception):
    """What every error of this package is; never raised itself."""


class ServerUnreachable(DiscoveryError):
    """No answer came: refused, unknown host, TLS failure, timeout, broken connection.

    Attributes:
        url: What was asked for, without credentials.
    """

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


class RequestRefused(DiscoveryError):
    """The server answered with another status than 200.

    Attributes:
        url: What was asked for, without credentials.
        status: The HTTP status code.
        message: What the server said, or client-go's sentence for that status.
    """

    def __init__(self, message: str, *, url: str, status: int) -> None:
        super().__init__(f"GET {url}: {status}: {message}")
        self.url = url
        self.status = status
        self.message = message


class UnexpectedDocument(DiscoveryError):
    """The server said 200, but what it sent is not the document its Content-Type promises.

    Attributes:
        url: What was asked for, without credentials.
        problem: What was seen and what was wanted.
    """

    def __init__(self, problem: str, *, url: str) -> None:
        super().__init__(f"GET {url}: {problem}")
        self.url = url
        self.problem = problem


class IncompleteDiscovery(DiscoveryError):
    """Some group-versions could not be discovered; the others could.

    The text is that of client-go discovery/discovery_client.go `ErrGroupDiscoveryFailed`.

    Attributes:
        failures: Why, by group-version such as `apps/v1`.
    """

    def __init__(self, failures: Mapping[str, str]) -> None:
        reasons = ", ".join(sorted(f"{name}: {reason}" for name, reason in failures.items()))
        super().__init__(f"unable to retrieve the complete list of server APIs: {reasons}")
        self.failures = dict(failures)
