"""Private parts of libraries that the service uses, as they are in the versions that it allows.

When one of these fails after an upgrade, look at what uses the part before you raise the bound in
pyproject.toml.
"""

import inspect

import httpcore2
from granian._granian import SocketHolder
from granian.server.embed import Server
from httpcore2._async import connection, http11


def test_granian_listens_on_a_socket_holder_of_its_own() -> None:
    """`serving/http/server.py` puts another one there, of a socket that listens already."""
    source = inspect.getsource(Server._init_shared_socket)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    assert [name in source for name in ("self._ssp", "self._shd", "self._sfd")] == [True] * 3
    assert callable(SocketHolder)


def test_httpcore_tells_of_the_steps_of_a_request() -> None:
    """`sources/upstreams/transport.py` closes sockets, and refuses answers, by these events."""
    made, asked = inspect.getsource(connection), inspect.getsource(http11)
    assert all(f'"{event}"' in made for event in ("connect_tcp", "start_tls"))
    assert '"receive_response_headers"' in asked
    assert list(inspect.signature(httpcore2.AsyncNetworkStream.read).parameters) == [
        "self",
        "max_bytes",
        "timeout",
    ]
