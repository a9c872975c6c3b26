"""Files that describe one cluster each: their places in a folder, and their content."""

import base64
import json
from pathlib import Path

import pytest
from apidiscovery_kubeconfig.cluster_files import read_argocd_secret, read_cluster_file
from apidiscovery_kubeconfig.credentials import BasicAuth
from apidiscovery_kubeconfig.errors import ConfigurationError
from apidiscovery_kubeconfig.exec_plugin import ExecPlugin
from apidiscovery_service.sources.clusters.files import list_clusters
from certificates import Authority
from cluster_files import contexts, kubeconfig, mounted

URL = "https://127.0.0.1:6443"
TOKEN = "held-in-the-file"  # noqa: S105 - made up

EXEC = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": "/bin/false",
    "interactiveMode": "Never",
}


def found(folder: Path) -> dict[str, str]:
    """Return the clusters of a folder, each with its place below it."""
    return {
        cluster.name: str(Path(cluster.place).relative_to(folder))
        for cluster in list_clusters(folder).clusters
    }


def test_a_file_gives_its_name_without_the_suffix(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yml", "c.json", "d.kubeconfig", "e", "f.example.com", "g.h.yaml"):
        (tmp_path / name).write_text("")
    for name in (".hidden.yaml", "a.yaml~", "#a.yaml#"):
        (tmp_path / name).write_text("")
    assert sorted(found(tmp_path)) == ["a", "b", "c", "d", "e", "f.example.com", "g.h"]


def test_secrets_are_found_as_they_are_mounted(tmp_path: Path) -> None:
    mounted(tmp_path, {"east.yaml": "", "west": ""})
    mounted(tmp_path / "north-kubeconfig", {"value": ""})
    mounted(tmp_path / "south", {"kubeconfig": "", "ca.crt": ""})
    mounted(tmp_path / "argo", {"name": "x", "server": "", "config": "", "namespaces": ""})
    assert found(tmp_path) == {
        "argo": "argo",
        "east": "east.yaml",
        "north": "north-kubeconfig/value",
        "south": "south/kubeconfig",
        "west": "west",
    }


@pytest.mark.parametrize(
    "files", [("value",), ("kubeconfig", "other.yaml"), ("server", "config", "name")]
)
def test_the_folder_itself_may_be_a_secret(tmp_path: Path, files: tuple[str, ...]) -> None:
    folder = tmp_path / "east"
    mounted(folder, dict.fromkeys(files, ""))
    names = {"east", "other"} if "other.yaml" in files else {"east"}
    assert set(found(folder)) == names


def test_other_folders_are_reported(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "east.yaml").write_text("")
    listing = list_clusters(tmp_path)
    assert listing.clusters == ()
    assert listing.unread == (tmp_path / "a", tmp_path / "b")


def test_the_current_context_counts(tmp_path: Path) -> None:
    path = tmp_path / "east.yaml"
    path.write_text(contexts({"two": URL, "one": "https://127.0.0.1:1"}, token=TOKEN))
    assert read_cluster_file(path).url == URL


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty; want a kubeconfig"),
        ("a: [", "east.yaml:2: no YAML"),
        ("- a", "want keys and values, got a list"),
        (kubeconfig("ftp://x"), "clusters[any].cluster.server: "),
        (kubeconfig(URL).replace('"any"', '""', 1), "current-context: not set"),
    ],
)
def test_the_error_names_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "east.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_cluster_file(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("users[me].user.exec", EXEC),
        ("users[me].user.tokenFile", "/var/run/secrets/kubernetes.io/serviceaccount/token"),
        ("users[me].user.client-certificate", "own.crt"),
        ("users[me].user.client-key", "own.key"),
        ("clusters[any].cluster.certificate-authority", "x"),
    ],
)
def test_a_file_names_no_program_and_no_other_file(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "east.yaml"
    name = key.rpartition(".")[2]
    if key.startswith("users"):
        text = kubeconfig(URL, **{name: value})
    else:
        text = kubeconfig(URL).replace('{"server"', f'{{"{name}": "{value}", "server"')
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_cluster_file(path)
    assert f"{path}, {key}: a file that is not trusted" in str(caught.value)


def test_a_trusted_file_may(tmp_path: Path) -> None:
    path = tmp_path / "east.yaml"
    path.write_text(kubeconfig(URL, exec=EXEC))
    assert isinstance(read_cluster_file(path, is_trusted=True).credentials, ExecPlugin)


# Secrets of Argo CD.


def secret(folder: Path, config: object, server: str = URL) -> tuple[Path, Path]:
    files = folder / "server", folder / "config"
    files[0].write_text(server)
    files[1].write_text(config if isinstance(config, str) else json.dumps(config))
    return files


def test_a_secret_of_argo_cd_has_all_that_a_kubeconfig_has(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    pair = authority.client("me", [])
    data = {
        key: base64.b64encode(Path(file).read_bytes()).decode()
        for key, file in (
            ("caData", authority.ca_file),
            ("certData", pair.cert_file),
            ("keyData", pair.key_file),
        )
    }
    config = {
        "tlsClientConfig": {**data, "insecure": False, "serverName": "api.example"},
        "proxyUrl": "http://127.0.0.1:3128",
        "disableCompression": True,
        "bearerToken": TOKEN,
    }
    got = read_argocd_secret(*secret(tmp_path, config, f"{URL}\n"))
    assert (got.url, got.proxy_url, got.compress) == (URL, "http://127.0.0.1:3128", False)
    proof = got.credentials.cached()
    assert proof is not None
    assert proof.authorization == f"Bearer {TOKEN}"
    assert got.tls.server_name == "api.example"
    assert got.tls.ca is not None
    assert got.tls.ca.read() == authority.ca_file.read_bytes()
    assert got.tls.certificate is not None
    assert got.tls.certificate.read() == Path(pair.cert_file).read_bytes()
    assert TOKEN not in repr(got)


def test_a_password_is_read(tmp_path: Path) -> None:
    config = {"username": "me", "password": "secret", "tlsClientConfig": {"insecure": True}}
    got = read_argocd_secret(*secret(tmp_path, config))
    assert isinstance(got.credentials, BasicAuth)
    assert got.tls.insecure


def test_its_plugin_runs_only_if_it_is_trusted(tmp_path: Path) -> None:
    plugin = {"command": "/bin/false", "args": ["x"], "env": {"A": "1"}}
    plugin["apiVersion"] = "client.authentication.k8s.io/v1beta1"
    files = secret(tmp_path, {"execProviderConfig": plugin})
    with pytest.raises(ConfigurationError, match=r"config, execProviderConfig: a file that is not"):
        read_argocd_secret(*files)
    credentials = read_argocd_secret(*files, is_trusted=True).credentials
    assert isinstance(credentials, ExecPlugin)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "config:2: no YAML"),
        ({"awsAuthConfig": {"clusterName": "x"}}, "awsAuthConfig: is not supported"),
        ({"tlsClientConfig": {"caData": "%"}}, "tlsClientConfig.caData: no base64"),
        ({"bearerToken": 1}, "bearerToken: want text"),
        ({"bearerToken": "a b"}, "bearerToken: want a token"),
    ],
)
def test_the_error_of_a_secret_names_its_key(tmp_path: Path, config: object, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_argocd_secret(*secret(tmp_path, config))
    assert str(caught.value).startswith(str(tmp_path / "config"))
    assert message in str(caught.value)


def test_a_secret_without_a_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"^{tmp_path}/server: "):
        read_argocd_secret(*secret(tmp_path, {}, ""))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    with pytest.raises(ConfigurationError, match="config: cannot be read: Is a directory"):
        read_argocd_secret(tmp_path / "server", tmp_path / "config")
