"""Kubeconfig files, read as the real kubectl reads them."""

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from apidiscovery_kubeconfig import kubeconfig
from apidiscovery_kubeconfig.credentials import Material
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources.upstreams.endpoint import endpoint_from_kubeconfig
from certificates import Authority
from fake_api_server import Answer, FakeApiServer, server_context
from kubectl_config import EXEC, Content, config, kubectl, write, write_plugin
from markers import IS_LONG
from upstream_setup import answer_of

OK = Answer(b"{}")
SECRET = "s3cr3t-0f-the-test"  # noqa: S105 - not one
_FILES = ("certificate-authority", "client-certificate", "client-key")


@pytest.fixture(autouse=True)
def _nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the machine has for kubectl out of the tests."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


async def kubectl_view(*flags: str) -> dict[str, object] | None:
    """Return what kubectl makes of the files, with all certificates in it; None when it fails."""
    done = await kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json", *flags)
    if done.exit_code != 0:
        return None
    view = cast("dict[str, Any]", json.loads(done.stdout))
    context, cluster = view["contexts"][0], view["clusters"][0]
    user: dict[str, Any] = view["users"][0] if view["users"] else {"name": "", "user": {}}
    found = {"context": context["name"], "cluster": cluster["name"], "user": user["name"]}
    found |= {f"cluster.{key}": value for key, value in cluster["cluster"].items()}
    found |= {f"user.{key}": value for key, value in user["user"].items() if key != "exec"}
    return found | {"namespace": context["context"].get("namespace", "")}


async def ours_as_kubectl(path: str | None, context: str | None) -> dict[str, object]:
    """Return what is read, in the form of `kubectl_view`."""
    resolved = kubeconfig.read_kubeconfig(path, context)
    endpoint = endpoint_from_kubeconfig(path, context)
    tls, whom = endpoint.tls, endpoint.impersonation
    told = {
        "cluster.server": endpoint.url,
        "cluster.certificate-authority-data": _data(tls.ca),
        "cluster.tls-server-name": tls.server_name,
        "cluster.insecure-skip-tls-verify": tls.insecure,
        "cluster.proxy-url": endpoint.proxy_url,
        "cluster.disable-compression": not endpoint.compress,
        "user.client-certificate-data": _data(tls.certificate),
        "user.client-key-data": _data(tls.key),
        "user.as": whom and whom.user,
        "user.as-uid": whom and whom.uid,
        "user.as-groups": whom and list(whom.groups),
        "user.as-user-extra": whom and {key: list(texts) for key, texts in whom.extra.items()},
        **_shown((await endpoint.headers()).get("Authorization", "")),
    }
    names = {"context": resolved.context, "cluster": resolved.cluster, "user": resolved.user}
    found: dict[str, object] = {key: value for key, value in told.items() if value}
    return names | found | {"namespace": resolved.namespace}


def _data(material: Material | None) -> str:
    return base64.b64encode(material.read()).decode() if material else ""


def _shown(authorization: str) -> dict[str, str]:
    kind, _, value = authorization.partition(" ")
    if kind == "Basic":
        username, _, password = base64.b64decode(value).decode().partition(":")
        return {"user.username": username, "user.password": password}
    return {"user.token": value}


async def same_as_kubectl(*flags: str, path: str | None = None, context: str | None = None) -> None:
    expected = await kubectl_view(*flags)
    assert expected is not None
    assert await ours_as_kubectl(path, context) == expected


def pem_files(folder: Path) -> dict[str, Path]:
    """Return files by the key of a kubeconfig that names them."""
    authority = Authority(folder / "pki")
    pair = authority.client("jane", ["dev"])
    return dict(zip(_FILES, (authority.ca_file, *pair), strict=True))


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


SINGLE: Mapping[str, tuple[Content, Content]] = {
    "nothing": ({}, {}),
    "prefix": ({"server": "https://a.example/k8s/clusters/c-1"}, {}),
    "http": ({"server": "http://127.0.0.1:8080"}, {"as": "jane"}),
    "as": ({}, {"as": "j", "as-uid": "1", "as-groups": ["g", "h"], "as-user-extra": {"k": ["v"]}}),
    "null": ({"tls-server-name": None}, {"token": None, "as-groups": None, "exec": None}),
    "unknown keys": ({"Server": "https://b.example", "x": {"y": 1}}, {"Token": "x"}),
}


@pytest.mark.parametrize("name", SINGLE)
async def test_one_file_is_read_as_by_kubectl(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "config", config(*SINGLE[name]))
    await same_as_kubectl("--kubeconfig", path, path=path)


@pytest.mark.parametrize("inline", [False, True])
async def test_certificates_are_files_or_data(tmp_path: Path, *, inline: bool) -> None:
    """Relative paths start beside the file, not in the working directory."""
    files = pem_files(tmp_path)
    if inline:
        keys = {f"{key}-data": encoded(file) for key, file in files.items()}
    else:
        keys = {key: f"../pki/{file.name}" for key, file in files.items()}
    cluster = {key: value for key, value in keys.items() if key.startswith("certificate")}
    user = {key: value for key, value in keys.items() if key.startswith("client")}
    path = write(tmp_path / "folder" / "config", config(cluster, user))
    await same_as_kubectl("--kubeconfig", path, path=path)


async def test_files_are_merged_as_by_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = pem_files(tmp_path)["certificate-authority"]
    one = write(
        tmp_path / "a" / "one",
        {"clusters": [{"name": "k", "cluster": {"server": "https://one", _FILES[0]: "ca.crt"}}]},
    )
    (tmp_path / "a" / "ca.crt").write_bytes(ca.read_bytes())
    two = write(
        tmp_path / "b" / "two",
        config({"server": "https://two", "tls-server-name": "two"}, {"token": "two"}),
    )
    three = write(
        tmp_path / "three",
        config({}, {"token": "three", "as": "x"}, current_context="d"),
    )
    missing = str(tmp_path / "missing")
    for files in ((one, two), (two, one), (one, three, two), (missing, "", three, one, three)):
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(files))
        await same_as_kubectl("--context", "c", context="c")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join((one, two, three)))
    await same_as_kubectl()
    assert kubeconfig.read_kubeconfig(None, None).files == (Path(one), Path(two), Path(three))


async def test_without_a_name_the_file_at_home_is_read(tmp_path: Path) -> None:
    write(tmp_path / "home" / ".kube" / "config", config({}, {"token": "home"}))
    await same_as_kubectl()


async def test_generated_combinations_are_read_as_by_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One to three files of few names, so that most meet; or both refuse."""
    files = pem_files(tmp_path)
    accepted = 0
    seeds = 200 if IS_LONG else 15
    for seed in range(seeds):
        random = Random(seed)  # noqa: S311 - not for secrets
        paths = [
            write(tmp_path / f"{seed}-{n}" / "config", _generated(random, files))
            for n in range(random.randint(1, 3))
        ]
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
        expected = await kubectl_view()
        if expected is None:
            with pytest.raises(InvalidConfiguration):
                endpoint_from_kubeconfig(None, None)
        else:
            assert await ours_as_kubectl(None, None) == expected, seed
            accepted += 1
    assert seeds / 3 < accepted < seeds


def _generated(random: Random, files: Mapping[str, Path]) -> Content:
    def some(**choices: object) -> dict[str, object]:
        named = {key.replace("_", "-"): value for key, value in choices.items()}
        return {key: value for key, value in named.items() if random.random() < 0.5}

    def names(pool: str) -> list[str]:
        return random.sample(pool, random.choice([0, 1, 2, 2, 2]))

    def pem(key: str) -> Content:
        relative = {key: os.path.relpath(files[key], files[key].parent.parent / "any")}
        return random.choice([relative, {f"{key}-data": encoded(files[key])}])

    def cluster() -> Content:
        trust: Content = random.choice(
            [{}, pem("certificate-authority"), {"insecure-skip-tls-verify": True}]
        )
        more = some(tls_server_name="n.example", proxy_url="http://p", disable_compression=True)
        return {"server": f"https://{random.random()}.example", **trust, **more}

    def user() -> Content:
        whom: Content = random.choice([{}, {"as": "x", **some(as_groups=["g"], as_uid="1")}])
        proof: Content = random.choice(
            [{}, {"token": f"t{random.random()}"}, {"username": "joe", "password": "x"}]
        )
        pair = {**pem("client-certificate"), **pem("client-key")} if random.random() < 0.5 else {}
        return {**whom, **proof, **pair}

    def context() -> Content:
        names = {"cluster": random.choice("kl"), "user": random.choice("uv")}
        return {**names, **some(namespace="n-s")}

    return {
        "clusters": [{"name": name, "cluster": cluster()} for name in names("kl")],
        "users": [{"name": name, "user": user()} for name in names("uv")],
        "contexts": [{"name": name, "context": context()} for name in names("cd")],
    } | some(current_context=random.choice("cd"))


# --- what goes over the wire


async def test_a_plugin_gets_the_cluster_as_from_kubectl(tmp_path: Path) -> None:
    """Other credentials are compared in tests/unit/client/config."""
    authority = Authority(tmp_path / "pki")
    write_plugin(tmp_path)
    async with FakeApiServer(OK, server_context(authority.server(["127.0.0.1"]))) as server:
        cluster = {
            "server": f"https://127.0.0.1:{server.port}",
            "certificate-authority": "pki/ca.crt",
            "extensions": [{"name": f"{EXEC}/exec", "extension": {"audience": ["a", 1]}}],
        }
        plugin = {
            "apiVersion": f"{EXEC}/v1",
            "interactiveMode": "Never",
            "command": "./plugin",
            "args": ["x"],
            "provideClusterInfo": True,
        }
        path = write(tmp_path / "config", config(cluster, {"exec": plugin}))
        done = await kubectl("--kubeconfig", path, "get", "--raw", "/apis")
        assert done.exit_code == 0, done.stderr
        theirs = _last_run(tmp_path)
        endpoint = endpoint_from_kubeconfig(path, None)
        await answer_of(endpoint)
        assert _last_run(tmp_path) == theirs
        tokens = [seen.values("authorization") for seen in server.requests]
        assert tokens[0] == tokens[-1] != []
        await endpoint.aclose()


def _last_run(folder: Path) -> tuple[str, object]:
    """Return arguments and environment of the last run of the plugin, and forget the run."""
    told = folder / "told"
    arguments, _, info = told.read_text().partition("\n")
    told.unlink()
    return arguments, json.loads(info)


# --- mistakes


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: [", ":2: no YAML: "),
        ("a: 1\na: 2", ":2: the key 'a' is there twice"),
        ("- a", "want keys and values, got a list"),
        ("", "nothing in"),
        ({"clusters": {}}, ", clusters: want a list, got a mapping"),
        (config(clusters=[{"name": "k"}, {"name": "k"}]), ", clusters[1].name: 'k' is there twice"),
        (config(current_context=""), ", current-context: not set; name a context, there are c"),
        (config(current_context="x"), ", contexts: no context 'x'; there are c"),
        (config(clusters=[]), ", contexts[c].context.cluster: no cluster 'k'; there are none"),
        (config(users=[]), ", contexts[c].context.user: no user 'u'; there are none"),
        (config({"server": None}), ", clusters[k].cluster.server: want the URL"),
        (config({"server": "a:6443"}), ", clusters[k].cluster.server: want a URL"),
        (config({"server": f"https://j:{SECRET}@a"}), ".server: there are credentials"),
        (config({"proxy-url": "socks5://a"}), ", clusters[k].cluster.proxy-url: SOCKS"),
        (config({"certificate-authority": "x"}), ".certificate-authority: cannot read /"),
        (config({"certificate-authority-data": "*"}), ".certificate-authority-data: no base64"),
        (config({"certificate-authority-data": "eA=="}), "-data: no certificate in it"),
        (
            config({"certificate-authority-data": "eA==", "certificate-authority": "x"}),
            ".certificate-authority-data: certificate-authority is there as well",
        ),
        (
            config({"certificate-authority": "x", "insecure-skip-tls-verify": True}),
            ".certificate-authority: an authority beside insecure-skip-tls-verify",
        ),
        (config({}, {"token": 1}), ", users[u].user.token: want text, got a number; put it in"),
        (config({}, {"token": f"{SECRET}\n"}), ", users[u].user.token: want a token of visible"),
        (config({}, {"tokenFile": "x"}), ", users[u].user.tokenFile: cannot read /"),
        (config({}, {"client-certificate": "x"}), ", users[u].user.client-key: want the key"),
        (
            config({}, {"client-certificate": "x", "client-key": "z"}),
            ", users[u].user.client-key: cannot read /",
        ),
        (config({}, {"token": "t", "username": "joe"}), ".token: there are username or password"),
        (config({}, {"auth-provider": {"name": "gcp"}}), ".auth-provider: 'gcp' is not supported"),
        (config({}, {"as-uid": "1"}), ", users[u].user.as-uid: want `as` beside it"),
        (config({}, {"exec": {}}), ", users[u].user.exec.apiVersion: want "),
    ],
)
def test_the_error_of_a_kubeconfig_names_file_and_key(
    tmp_path: Path, content: object, expected: str
) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(InvalidConfiguration) as error:
        endpoint_from_kubeconfig(path, None)
    assert expected in str(error.value)
    assert path in str(error.value)
    assert SECRET not in str(error.value)


def test_a_file_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InvalidConfiguration, match=f"^{path}: cannot be read: "):
            endpoint_from_kubeconfig(str(path), None)
    (tmp_path / "latin").write_bytes(b"\xe9")
    with pytest.raises(InvalidConfiguration, match="not UTF-8"):
        endpoint_from_kubeconfig(str(tmp_path / "latin"), None)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(InvalidConfiguration, match=r"nothing in .*/none; name a file"):
        endpoint_from_kubeconfig(None, None)


def test_the_error_of_an_unknown_context_lists_the_contexts(tmp_path: Path) -> None:
    contexts: Sequence[Content] = [
        {"name": name, "context": {"cluster": "k"}} for name in ("prod", "dev")
    ]
    path = write(tmp_path / "config", config(contexts=contexts))
    with pytest.raises(InvalidConfiguration, match=r"no context 'x'; there are dev, prod$"):
        endpoint_from_kubeconfig(path, "x")
    resolved = kubeconfig.read_kubeconfig(path, "dev")
    assert (resolved.context, resolved.cluster, resolved.user) == ("dev", "k", "")


async def test_a_pod_without_a_kubeconfig_uses_its_own_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of-the-account")
    (tmp_path / "ca.crt").write_bytes(pem_files(tmp_path)["certificate-authority"].read_bytes())
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    endpoint = endpoint_from_kubeconfig(None, None)
    assert endpoint.url == "https://[fd00::1]:443"
    assert await endpoint.headers() == {"Authorization": "Bearer of-the-account"}
    with pytest.raises(InvalidConfiguration, match="nothing in"):
        endpoint_from_kubeconfig(None, "named")
    write(tmp_path / "home" / ".kube" / "config", config())
    assert kubeconfig.read_kubeconfig(None, None).context == "c"
