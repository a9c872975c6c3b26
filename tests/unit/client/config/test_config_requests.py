"""Credentials in requests, compared with those of the real kubectl with the same files."""

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, cast

import pytest
from apidiscovery_client._connecting import Flags, open_async, open_blocking
from apidiscovery_client._errors import DiscoveryError, InvalidConfiguration
from apidiscovery_kubeconfig import kubeconfig
from certificates import Authority
from fake_api_server import Answer, FakeApiServer, Request, server_context
from kubectl_config import Content, config, kubectl, plugin_keys, write, write_plugin
from proxies import ForwardProxy

OK = Answer(b"{}")
Given = Mapping[str, str | Sequence[str] | bool]

NOTHING: Content = MappingProxyType({})
HOW = ("async", "sync")
NO_FLAGS: Given = MappingProxyType({})
_FLAGS = {
    "as_user": "as",
    "as_groups": "as-group",
}
PAIR: Content = {"client-certificate": "jane.crt", "client-key": "jane.key"}
WHOM: Content = {"as": "w", "as-uid": "1", "as-groups": ["g"], "as-user-extra": {"k": ["a", "b"]}}


class Case(NamedTuple):
    """A configuration; `other` is a second user, o, and a second cluster, l."""

    user: Content = NOTHING
    cluster: Content = NOTHING
    flags: Given = NO_FLAGS
    other: Content = NOTHING
    other_cluster: Content = NOTHING


CASES: Mapping[str, Case] = {
    "token": Case({"token": "a"}),
    "token file": Case({"tokenFile": "token"}),
    "token and its file": Case({"token": "a", "tokenFile": "token"}),
    "password": Case({"username": "jane", "password": "pass:wörd"}),
    "certificate": Case(PAIR),
    "certificate and token": Case({**PAIR, "token": "a"}),
    "plugin": Case(plugin_keys("./plugin")),
    "plugin and token": Case({**plugin_keys("./plugin"), "token": "a"}),
    "plugin and certificate": Case({**plugin_keys("./plugin"), **PAIR}),
    "impersonation": Case({"token": "a", **WHOM}),
    "server name": Case({"token": "a"}, {"tls-server-name": "b.example"}),
    "insecure": Case({"token": "a"}, {"certificate-authority": None, "insecure": True}),
    "no compression": Case({"token": "a"}, {"disable-compression": True}),
    "--token": Case({}, {}, {"token": "f"}),
    "--token over token": Case({"token": "a"}, {}, {"token": "f"}),
    "--token over plugin": Case(plugin_keys("./plugin"), {}, {"token": "f"}),
    "--token beside certificate": Case(PAIR, {}, {"token": "f"}),
    "--token beside its file": Case({"tokenFile": "token"}, {}, {"token": "f"}),
    "--token beside password": Case({"username": "j"}, {}, {"token": "f"}),
    "--username": Case({}, {}, {"username": "f", "password": "p"}),
    "--password over password": Case({"username": "j", "password": "q"}, {}, {"password": "p"}),
    "--username beside token": Case({"token": "a"}, {}, {"username": "f", "password": "p"}),
    "--client-certificate": Case(
        {"token": "a"}, {}, {"client_certificate": "joe.crt", "client_key": "joe.key"}
    ),
    "--client-certificate over another": Case(
        PAIR, {}, {"client_certificate": "joe.crt", "client_key": "joe.key"}
    ),
    "--client-certificate without key": Case({}, {}, {"client_certificate": "joe.crt"}),
    "--client-certificate of another key": Case(PAIR, {}, {"client_certificate": "joe.crt"}),
    "--as": Case({"token": "a"}, {}, {"as_user": "f"}),
    "--as over as": Case({"token": "a", **WHOM}, {}, {"as_user": "f"}),
    "--as-group over groups": Case({"token": "a", **WHOM}, {}, {"as_groups": ["x", "y"]}),
    "--as-uid over uid": Case({"token": "a", **WHOM}, {}, {"as_uid": "9"}),
    "--as-uid alone": Case({"token": "a"}, {}, {"as_uid": "9"}),
    "--tls-server-name": Case({"token": "a"}, {}, {"tls_server_name": "b.example"}),
    "--tls-server-name over another": Case(
        {"token": "a"}, {"tls-server-name": "no.example"}, {"tls_server_name": "b.example"}
    ),
    "--server puts away the name": Case(
        {"token": "a"},
        {"tls-server-name": "no.example", "server": "https://127.0.0.1:1"},
        {"server": "HERE", "context": "c"},
    ),
    "--insecure over authority": Case({"token": "a"}, {}, {"insecure_skip_tls_verify": True}),
    "--certificate-authority over another": Case(
        {"token": "a"}, {"certificate-authority": "foreign.crt"}, {"certificate_authority": "OWN"}
    ),
    "--certificate-authority over insecure": Case(
        {"token": "a"},
        {"certificate-authority": None, "insecure": True},
        {"certificate_authority": "foreign.crt"},
    ),
    "--certificate-authority over data": Case(
        {"token": "a"},
        {"certificate-authority": None, "certificate-authority-data": "foreign.crt"},
        {"certificate_authority": "OWN"},
    ),
    "--disable-compression": Case({"token": "a"}, {}, {"disable_compression": True}),
    "--user": Case({"token": "a"}, {}, {"user": "o"}, {"token": "b", "as": "x"}),
    "--cluster": Case(
        {"token": "a"}, {"server": "https://127.0.0.1:1"}, {"cluster": "l"}, {}, {"server": "HERE"}
    ),
    "--context": Case({"token": "a"}, {}, {"context": "d"}, {"token": "b"}),
    "--user of none": Case({"token": "a"}, {}, {"user": "none"}),
    "--cluster of none": Case({"token": "a"}, {}, {"cluster": "none"}),
    "--context of none": Case({"token": "a"}, {}, {"context": "none"}),
    "both trusts": Case({"token": "a"}, {"insecure": True}),
    "authority not there": Case({"token": "a"}, {"certificate-authority": "missing"}),
    "key not there": Case({"client-certificate": "jane.crt", "client-key": "missing"}),
    "token file not there": Case({"tokenFile": "missing"}),
    "foreign authority": Case({"token": "a"}, {"certificate-authority": "foreign.crt"}),
}


class World(NamedTuple):
    folder: Path
    url: str
    server: FakeApiServer


@asynccontextmanager
async def world(folder: Path, *, scheme: str = "https") -> AsyncGenerator[World]:
    """Run a server that asks for a certificate, in a folder with all files that cases name."""
    authority = Authority(folder / "pki")
    for user in ("jane", "joe"):
        pair = authority.client(user, ["dev"])
        (folder / f"{user}.crt").write_bytes(pair.cert_file.read_bytes())
        (folder / f"{user}.key").write_bytes(pair.key_file.read_bytes())
    (folder / "foreign.crt").write_bytes(Authority(folder / "foreign").ca_file.read_bytes())
    (folder / "token").write_text("of-the-file\n")
    write_plugin(folder)
    context = server_context(authority.server(["127.0.0.1", "b.example"]))
    context.load_verify_locations(authority.ca_file)
    context.verify_mode = ssl.CERT_OPTIONAL
    async with FakeApiServer(OK, context if scheme == "https" else None) as server:
        yield World(folder, f"{scheme}://127.0.0.1:{server.port}", server)


def written(case: Case, around: World) -> str:
    """Write the kubeconfig of a case; `HERE`, `insecure` and `-data` are known only now."""

    def cluster(keys: Content) -> dict[str, object]:
        default = {"server": around.url, "certificate-authority": "pki/ca.crt"}
        found = {key: around.url if value == "HERE" else value for key, value in keys.items()}
        if found.pop("insecure", False):
            found["insecure-skip-tls-verify"] = True
        return _with_data({**default, **found}, around.folder)

    content = config()
    content["clusters"] = [
        {"name": "k", "cluster": cluster(case.cluster)},
        {"name": "l", "cluster": cluster(case.other_cluster)},
    ]
    content["users"] = [
        {"name": "u", "user": _with_data(case.user, around.folder)},
        {"name": "o", "user": dict(case.other)},
    ]
    content["contexts"] = [
        {"name": "c", "context": {"cluster": "k", "user": "u"}},
        {"name": "d", "context": {"cluster": "l", "user": "o"}},
    ]
    return write(around.folder / "config", content)


def _with_data(keys: Content, folder: Path) -> dict[str, object]:
    def encoded(name: object) -> str:
        return base64.b64encode((folder / str(name)).read_bytes()).decode()

    return {key: encoded(v) if key.endswith("-data") else v for key, v in keys.items()}


def given(case: Case, path: str, around: World) -> Flags:
    flags: dict[str, object] = {"kubeconfig": path}
    for name, value in case.flags.items():
        known = {"HERE": around.url, "OWN": str(around.folder / "pki" / "ca.crt")}
        flags[name] = known.get(value, value) if isinstance(value, str) else value
        if name in ("client_certificate", "client_key", "certificate_authority"):
            flags[name] = str(around.folder / str(flags[name]))
    return cast("Flags", flags)


def as_arguments(flags: Flags) -> list[str]:
    arguments: list[str] = []
    for name, value in flags.items():
        option = f"--{_FLAGS.get(name, name).replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif isinstance(value, list):
            arguments += [f"{option}={one}" for one in cast("list[str]", value)]
        else:
            arguments.append(f"{option}={value}")
    return arguments


def shown(seen: Request) -> tuple[str, list[tuple[str, str]], bool]:
    """Return the user, the headers with credentials, and whether gzip is accepted."""
    kept = [
        pair
        for pair in seen.fields
        if pair[0] == "authorization" or pair[0].startswith("impersonate-")
    ]
    return seen.user, sorted(kept), "gzip" in "".join(seen.values("accept-encoding"))


async def ours(flags: Flags, how: str) -> None:
    """Ask once; that the answer is no discovery does not matter."""
    with suppress(DiscoveryError):
        if how == "async":
            opened = open_async(**flags)
            try:
                await opened.transport.fetch(None)
            finally:
                await opened.transport.close()
        else:
            await asyncio.to_thread(_ask_sync, flags)


async def asked(around: World, flags: Flags, how: str) -> Request:
    """Return the last request of a client, which has sent at least one."""
    around.server.requests.clear()
    await ours(flags, how)
    return around.server.requests[-1]


def _ask_sync(flags: Flags) -> None:
    transport = open_blocking(**flags).transport
    try:
        transport.fetch(None)
    finally:
        transport.close()


@pytest.mark.parametrize("name", CASES)
async def test_a_request_has_the_credentials_of_kubectls(tmp_path: Path, name: str) -> None:
    """Or there is none, as with kubectl."""
    case = CASES[name]
    async with world(tmp_path) as around:
        flags = given(case, written(case, around), around)
        done = await kubectl("get", "--raw", "/apis", *as_arguments(flags))
        # Some builds of kubectl ask for /version before, and not with all flags.
        theirs = [shown(seen) for seen in around.server.requests if seen.target == "/apis"]
        names = set(around.server.names)
        assert bool(theirs) == (done.exit_code == 0), done.stderr
        for how in HOW:
            around.server.requests.clear()
            around.server.names.clear()
            await ours(flags, how)
            assert {repr(shown(seen)) for seen in around.server.requests} == set(map(repr, theirs))
            if theirs:
                assert set(around.server.names) == names


async def test_a_certificate_of_a_flag_replaces_the_data_in_the_kubeconfig(tmp_path: Path) -> None:
    """As in kubectl since it was fixed there."""
    data: Content = {"client-certificate-data": "jane.crt", "client-key-data": "jane.key"}
    joe = {"client_certificate": "joe.crt", "client_key": "joe.key"}
    async with world(tmp_path) as around:
        case = Case(data, {}, joe)
        flags = given(case, written(case, around), around)
        assert [(await asked(around, flags, how)).user for how in HOW] == ["joe", "joe"]


async def test_a_request_without_credentials_is_sent(tmp_path: Path) -> None:
    """Kubectl would ask the user for a password."""
    async with world(tmp_path) as around:
        case = Case()
        flags = given(case, written(case, around), around)
        for how in HOW:
            assert shown(await asked(around, flags, how)) == ("", [], True)


@pytest.mark.parametrize("user", [{"token": "a"}, {"username": "j", "password": "p"}, WHOM])
async def test_without_tls_no_credentials_are_sent(tmp_path: Path, user: Content) -> None:
    async with world(tmp_path, scheme="http") as around:
        path = write(tmp_path / "config", config({"server": around.url}, user))
        done = await kubectl("get", "--raw", "/apis", "--kubeconfig", path)
        assert done.exit_code == 0, done.stderr
        theirs = shown(around.server.requests[-1])
        for how in HOW:
            seen = await asked(around, {"kubeconfig": path}, how)
            assert shown(seen) == theirs
            assert seen.values("authorization") == []


async def test_a_proxy_is_asked_as_kubectl_asks_it(tmp_path: Path) -> None:
    async with world(tmp_path) as around, ForwardProxy(around.server.port) as proxy:
        cluster = {
            "server": "https://b.example:6443",
            "certificate-authority": "pki/ca.crt",
            "proxy-url": f"http://jane:s3cret@127.0.0.1:{proxy.port}",
        }
        path = write(tmp_path / "config", config(cluster, {"token": "a"}))
        done = await kubectl("get", "--raw", "/apis", "--kubeconfig", path)
        assert done.exit_code == 0, done.stderr
        theirs = proxy.requests[-1]
        own = shown(around.server.requests[-1])
        for how in HOW:
            proxy.requests.clear()
            seen = await asked(around, {"kubeconfig": path}, how)
            assert shown(seen) == own
            assert seen.values("proxy-authorization") == []
            passed = proxy.requests[-1]
            name = "proxy-authorization"
            assert (passed.target, passed.values(name)) == (theirs.target, theirs.values(name))


async def test_one_server_is_asked_over_both_versions_of_http(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    context = server_context(authority.server(["127.0.0.1"]), alpn=("h2", "http/1.1"))
    async with FakeApiServer(OK, context) as server:
        cluster = {
            "server": f"https://127.0.0.1:{server.port}",
            "certificate-authority": str(authority.ca_file),
        }
        path = write(tmp_path / "config", config(cluster, {"token": "a"}))
        for how, protocol in (("async", "h2"), ("sync", "http/1.1"), ("async", "h2")):
            server.requests.clear()
            await ours({"kubeconfig": path}, how)
            assert {seen.protocol for seen in server.requests} == {protocol}


async def test_a_pod_trusts_the_authority_of_its_service_account_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as around:
        monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(around.server.port))
        for authority, sent in (
            ("foreign.crt", set[str]()),
            ("pki/ca.crt", {"Bearer of-the-file"}),
        ):
            (tmp_path / "ca.crt").write_bytes((tmp_path / authority).read_bytes())
            for how in HOW:
                around.server.requests.clear()
                await ours({}, how)
                requests = around.server.requests
                assert {one for seen in requests for one in seen.values("authorization")} == sent


def test_a_missing_server_is_an_error_before_any_request(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config({"server": ""}))
    with pytest.raises(InvalidConfiguration, match=r"config, clusters\[k\]\.cluster\.server: want"):
        open_async(kubeconfig=path)
