"""Private parts of libraries that the service uses, as they are in the versions that it allows.

When one of these fails after an upgrade, look at what uses the part before you raise the bound in
pyproject.toml.
"""

import inspect
import re
from types import ModuleType

import httpcore2
from granian._granian import SocketHolder
from granian.server.embed import Server
from httpcore2._async import connection, http11
from httpcore2._utils import is_socket_readable


def test_granian_listens_on_a_socket_holder_of_its_own() -> None:
    """`serving/http/server.py` replaces it with one of a socket that listens already."""
    source = inspect.getsource(Server._init_shared_socket)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    assert [name in source for name in ("self._ssp", "self._shd", "self._sfd")] == [True] * 3
    assert callable(SocketHolder)


def test_httpcore_uses_connections_as_we_make_them() -> None:
    """`sources/upstreams/network.py` is between it and the sockets."""
    asked = {info for made in (connection, http11) for info in _asked_for(made)}
    assert asked == {"ssl_object", "is_readable"}
    assert inspect.signature(is_socket_readable).return_annotation == "bool"
    assert list(inspect.signature(httpcore2.AsyncNetworkStream.read).parameters) == [
        "self",
        "max_bytes",
        "timeout",
    ]


def _asked_for(module: ModuleType) -> list[str]:
    return re.findall(r'get_extra_info\(\s*"(\w+)"', inspect.getsource(module))
