"""The configuration file: keys, values, and precedence."""

from pathlib import Path

import click
import pytest
from apidiscovery_service.app.command import serve
from apidiscovery_service.app.config_file import STRUCTURED, located, read_config
from click.testing import CliRunner, Result


def read(folder: Path, text: str) -> dict[str, object]:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return read_config(path, click.Context(serve))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("# nothing\n", {}, id="comment"),
        pytest.param("{}", {}, id="empty-mapping"),
        pytest.param("apiVersion: apidiscovery/v1\nkind: ServerConfiguration\n", {}, id="type"),
        pytest.param("http: 127.0.0.1:1\n", {"http": "127.0.0.1:1"}, id="address"),
        pytest.param('{"grpc": "[::1]:0"}', {"grpc": "[::1]:0"}, id="JSON"),
        pytest.param("log-level: debug\n", {"log_level": "debug"}, id="with-dash"),
        pytest.param("log_level: debug\n", {"log_level": "debug"}, id="with-underscore"),
        pytest.param("insecure-bind: true\n", {"insecure_bind": "true"}, id="flag"),
        pytest.param("http: off\n", {"http": "false"}, id="bare-off"),
        pytest.param("http: 'off'\n", {"http": "off"}, id="quoted-off"),
        pytest.param("manifests: [a, b]\n", {"manifests": ["a", "b"]}, id="list"),
        pytest.param("manifests: a.yaml\n", {"manifests": ["a.yaml"]}, id="one-for-a-list"),
        pytest.param(
            "feature-gates: {StorageVersionHash: false, APIResponseCompression: true}\n",
            {"feature_gates": "StorageVersionHash=false,APIResponseCompression=true"},
            id="gates-as-mapping",
        ),
        pytest.param(
            "feature-gates: StorageVersionHash=false\n",
            {"feature_gates": "StorageVersionHash=false"},
            id="gates-as-text",
        ),
    ],
)
def test_a_file_gives_values_by_parameter(
    text: str, values: dict[str, object], tmp_path: Path
) -> None:
    assert read(tmp_path, text) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("htp: x\n", ":1, htp: unknown key; did you mean http?", id="misspelt"),
        pytest.param("\n\nqqq: x\n", ":3, qqq: unknown key", id="unknown"),
        pytest.param("config: x\n", ":1, config: unknown key", id="config-itself"),
        pytest.param("kind: Pod\n", ":1, kind: unknown key", id="other-kind"),
        pytest.param("8080: x\n", ":1, 8080: unknown key", id="number-as-key"),
        pytest.param(
            "store: memory\nstore: memory\n", ":2: the key 'store' is there twice", id="twice"
        ),
        pytest.param(
            "log-level: info\nlog_level: info\n",
            ":2, log_level: the key is there twice",
            id="twice-in-both-spellings",
        ),
        pytest.param("http: 8080\n", ":1, http: want HOST:PORT", id="port-alone"),
        pytest.param("http:\n", ":1, http: want a value", id="null"),
        pytest.param("# c\ngrpc: [a, b]\n", ":2, grpc: want HOST:PORT", id="list-for-one"),
        pytest.param(
            "catalog: all\n",
            ":1, catalog: want kubernetes, kubernetes:1.NN or none, got 'all'",
            id="choice",
        ),
        pytest.param(
            "insecure-bind: maybe\n", ":1, insecure-bind: 'maybe' is not a valid", id="flag"
        ),
        pytest.param(
            "feature-gates: {Nope: true}\n", ":1, feature-gates: unknown feature gate", id="gate"
        ),
        pytest.param(
            "feature-gates: {StorageVersionHash: 3}\n",
            ":1, feature-gates: feature gate StorageVersionHash wants",
            id="gate-value",
        ),
        pytest.param("- http\n", ":1: want keys and values, got list", id="list"),
        pytest.param("text\n", ":1: want keys and values, got str", id="text"),
        pytest.param("a: [\n", ":2: no YAML: ", id="not-YAML"),
        pytest.param("a: 1\n---\nb: 2\n", ":2: no YAML: ", id="two-documents"),
        pytest.param("http: 2020-13-45\n", ":", id="no-date"),
        pytest.param("http: !!bool maybe\n", ":", id="no-boolean"),
    ],
)
def test_errors_have_file_line_and_key(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(click.UsageError) as caught:
        read(tmp_path, text)
    assert caught.value.message.startswith(f"{tmp_path / 'config.yaml'}{message}")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    with pytest.raises(click.UsageError, match="cannot be read: No such file"):
        read_config(path, click.Context(serve))
    path.write_bytes(b"http: caf\xe9\n")
    with pytest.raises(click.UsageError, match="not UTF-8"):
        read_config(path, click.Context(serve))


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeffstore: memory\n") == {"store": "memory"}


# --------------------------------------------------------------------------------------------------
# Flag before variable before file before default.
#
# Each address is refused, so nothing is started; the refusal names the address that was used.

FROM_FLAG, FROM_VARIABLE, FROM_FILE = (f"192.0.2.{i}:80" for i in (1, 2, 3))


def run(folder: Path, *flags: str, config: str = "", env: dict[str, str] | None = None) -> Result:
    path = folder / "config.yaml"
    path.write_text(config, encoding="utf-8")
    return CliRunner().invoke(serve, ["--config", str(path), *flags], env=env)


@pytest.mark.parametrize(
    ("flags", "env", "config", "wanted"),
    [
        pytest.param(
            ["--http", FROM_FLAG],
            {"APIDISCOVERY_HTTP": FROM_VARIABLE},
            f"http: {FROM_FILE}",
            FROM_FLAG,
            id="flag",
        ),
        pytest.param(
            [],
            {"APIDISCOVERY_HTTP": FROM_VARIABLE},
            f"http: {FROM_FILE}",
            FROM_VARIABLE,
            id="variable",
        ),
        pytest.param([], {}, f"http: {FROM_FILE}", FROM_FILE, id="file"),
        pytest.param(
            [], {"APIDISCOVERY_HTTP": ""}, f"http: {FROM_FILE}", FROM_FILE, id="empty-variable"
        ),
    ],
)
def test_flag_wins_over_variable_over_file(
    *, flags: list[str], env: dict[str, str], config: str, wanted: str, tmp_path: Path
) -> None:
    result = run(tmp_path, *flags, env=env, config=config)
    assert result.exit_code == 2
    assert f"--http {wanted} is reachable from other machines" in result.output


def test_an_address_that_is_not_given_has_its_default(tmp_path: Path) -> None:
    result = run(tmp_path, "--grpc", FROM_FLAG)
    assert f"--grpc {FROM_FLAG} is reachable" in result.output
    options = {str(p.name): p for p in serve.params}
    assert (options["http"].default, options["grpc"].default) == (
        "127.0.0.1:8080",
        "127.0.0.1:50051",
    )


def test_both_servers_off_is_bad_usage(tmp_path: Path) -> None:
    result = run(tmp_path, "--http=off", env={"APIDISCOVERY_GRPC": "off"})
    assert result.exit_code == 2
    assert "--http and --grpc are both off" in result.output


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"http: {FROM_FILE}\n", encoding="utf-8")
    result = CliRunner().invoke(serve, [], env={"APIDISCOVERY_CONFIG": str(path)})
    assert f"--http {FROM_FILE} is reachable" in result.output


@pytest.mark.parametrize(
    ("flags", "env", "config"),
    [
        pytest.param(["--htp", "x"], {}, "", id="unknown-flag"),
        pytest.param(["--http", "8080"], {}, "", id="flag"),
        pytest.param([], {"APIDISCOVERY_HTTP": "8080"}, "", id="variable"),
        pytest.param([], {"APIDISCOVERY_FEATURE_GATES": "Nope=true"}, "", id="gate"),
        pytest.param(["--clusters", "nowhere"], {}, "", id="no-folder"),
        pytest.param(["--trust-clusters"], {}, "", id="nothing-to-trust"),
    ],
)
def test_bad_usage_and_configuration_exit_with_2(
    flags: list[str], env: dict[str, str], config: str, tmp_path: Path
) -> None:
    assert run(tmp_path, "--grpc", "off", *flags, env=env, config=config).exit_code == 2


@pytest.mark.parametrize("delay", ["5", "-1s", "25h", "soon"])
def test_a_shutdown_delay_is_a_duration(tmp_path: Path, delay: str) -> None:
    result = run(tmp_path, "--http=127.0.0.1:0", "--grpc=off", "--shutdown-delay", delay)
    assert result.exit_code == 2
    assert f"want a duration such as 30s, up to 24h, got '{delay}'" in result.output


def test_a_manifest_that_is_not_there_exits_with_2_and_names_it(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    flags = ("--store=memory", "--http=127.0.0.1:0", "--grpc=off")
    result = run(tmp_path, *flags, config=f"manifests: [{missing}]\n")
    assert result.exit_code == 2
    assert result.output == f"error: {missing}: cannot be read: No such file or directory\n"


# --------------------------------------------------------------------------------------------------
# The line of what is wrong within a key, or found wrong when the flag is used.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("upstreams:\n", ":1, upstreams: want keys and values, got nothing", id="none"),
        pytest.param("upstreams: [a]\n", ":1, upstreams: want keys and values", id="list"),
        pytest.param(
            "upstreams:\n  east:\n", ":2, upstreams.east: want keys and values", id="no-settings"
        ),
        pytest.param(
            "upstreams:\n  'e st': http://a\n", ":2, upstreams.e st: want a name", id="name"
        ),
        pytest.param(
            "upstreams:\n  no: {url: http://a}\n", ":2: no is not text in YAML; quote it", id="no"
        ),
        pytest.param(
            "access:\n- role: reader\n  n: 1\n", ":3: n is not text in YAML; quote it", id="n"
        ),
        pytest.param(
            "upstreams:\n  east: {timeout: 1s}\n",
            ":2, upstreams.east: want url, or kubeconfig or context",
            id="no-url",
        ),
        pytest.param(
            "upstreams:\n  east:\n    url: http://a\n    context: b\n",
            ":2, upstreams.east: want url, or kubeconfig or context",
            id="two-places",
        ),
        pytest.param(
            "upstreams:\n  east:\n    url: [a]\n", ":3, upstreams.east.url: want text", id="url"
        ),
        pytest.param(
            "upstreams:\n  east: ftp://a\n",
            ":2, upstreams.east.url: want a URL such as https://host:6443",
            id="url-alone",
        ),
        pytest.param(
            "upstreams:\n  east:\n    timeout: 1s\n    url: http://ada:hidden@a\n",
            ":4, upstreams.east.url: there are credentials in the URL",
            id="credentials",
        ),
        pytest.param(
            "services: x\n", ":1, services: want keys and values, got text", id="services-text"
        ),
        pytest.param(
            "services:\n  remote: http://a\n", ":2, services.remote: want NAME", id="service"
        ),
        pytest.param(
            "services:\n  a/b: http://a\n  a/b:443: {url: http://a}\n",
            ":3, services.a/b:443: want a URL",
            id="service-mapping",
        ),
        pytest.param(
            "services:\n  a/b: a.example\n",
            ":2, services.a/b: want a URL such as https://host:6443",
            id="service-url",
        ),
        pytest.param("access: {}\n", ":1, access: want a list, got a mapping", id="access"),
        pytest.param(
            "access:\n- role: reader\n  users: [ada]\n- users: [bob]\n  role: owner\n",
            ":5, access[1].role: want one of reader, publisher, admin, got 'owner'",
            id="role",
        ),
        pytest.param(
            "access:\n- role: reader\n  users:\n  - ada\n  - 7\n",
            ":5, access[0].users[1]: want text, got a number",
            id="user",
        ),
        pytest.param(
            "access: [{role: reader, users: [ada]}]\n",
            ":1, access: no caller would be identified",
            id="access-without-identities",
        ),
        pytest.param(
            "upstreams:\n  east:\n    url: http://127.0.0.1:1\n    labels:\n      region: 'a b'\n",
            ":5, upstreams.east.labels.region: no value of a label: a valid label must be",
            id="label-value",
        ),
        pytest.param(
            "cluster-options:\n  'prod-*':\n    labels: {prod: true}\n",
            ":3, cluster-options.prod-*.labels.prod: want text, got 'prod: True'; put it in quotes",
            id="label-type",
        ),
        pytest.param(
            "cluster-options:\n  'prod-*':\n    url: http://127.0.0.1:1\n",
            ":3, cluster-options.prod-*.url: unknown key",
            id="url-of-clusters",
        ),
        pytest.param(
            "cluster-options:\n  'prod-*':\n    merge: sometimes\n",
            ":3, cluster-options.prod-*.merge: want true or false, got text",
            id="merge",
        ),
        pytest.param(
            "cluster-options:\n  east: x\n",
            ":2, cluster-options.east: want keys and values, got text",
            id="cluster-options-text",
        ),
        pytest.param(
            "views: {eu: {of: both}}\n",
            ":1, views.eu.of: want union or common, got 'both'",
            id="view-of-something-else",
        ),
        pytest.param(
            "views: {eu: {}}\n",
            ":1, views.eu.of: want union or common, got nothing",
            id="view-of-nothing",
        ),
        pytest.param(
            "views: {union: {of: union}}\n",
            ":1, views.union: a view of this name is built in",
            id="view-built-in",
        ),
        pytest.param(
            "views: {EU: {of: union}}\n",
            ":1, views.EU: want a name of at most 63 small letters",
            id="view-name",
        ),
        pytest.param(
            "views: {eu: {of: union, labels: a}}\n",
            ":1, views.eu.labels: unknown key",
            id="view-key",
        ),
        pytest.param(
            "views:\n  eu: {of: union, clusters: 'a=='''}\n",
            ":2, views.eu.clusters: want labels such as region=eu: ",
            id="view-labels",
        ),
        pytest.param(
            "views: [eu]\n", ":1, views: want keys and values, got a list", id="views-list"
        ),
        pytest.param(
            "upstreams:\n  east:\n    kubeconfig: a\n    ca-file: b\n",
            ":4, upstreams.east.ca-file: unknown key",
            id="option-of-a-kubeconfig",
        ),
        pytest.param(
            "upstreams:\n  east:\n    url: https://127.0.0.1:1\n    client-certificate: a\n",
            ":2, upstreams.east.client-key: want the key of",
            id="missing-option",
        ),
        pytest.param("store: redis\n", ":1, store: store: wanted memory, sqlite:PATH", id="store"),
        pytest.param("upstream: east\n", ":1, upstream: want NAME=URL", id="upstream"),
        pytest.param("\nupstream: [a=http://a, b]\n", ":2, upstream: want NAME=URL", id="list"),
        pytest.param(
            "max-requests-per-second: few\n", ":1, max-requests-per-second: 'few'", id="rate"
        ),
        pytest.param(
            "max-requests-per-second: -1\n", ":1, max-requests-per-second: -1", id="negative"
        ),
        pytest.param("etcd-cafiel: a\n", ":1, etcd-cafiel: unknown key; did you mean", id="etcd"),
        pytest.param("service: {}\n", ":1, service: unknown key; did you mean", id="service"),
        pytest.param("token-auth-file:\n", ":1, token-auth-file: want a value", id="none"),
    ],
)
def test_errors_in_structured_and_checked_keys_have_their_own_line(
    text: str, message: str, tmp_path: Path
) -> None:
    _refused_with(tmp_path, text, message)


def _refused_with(folder: Path, text: str, message: str) -> None:
    result = run(folder, "--store", "memory", "--http=127.0.0.1:0", "--grpc=off", config=text)
    assert result.exit_code == 2, result.output
    assert f"{folder / 'config.yaml'}{message}" in result.output
    assert "hidden" not in result.output


UPSTREAM = "upstreams:\n  east.example:\n    url: https://127.0.0.1:1\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("ca-flie: a", "ca-flie: unknown key; did you mean ca-file?", id="unknown"),
        pytest.param("ca-file: none.pem", "ca-file: cannot read", id="ca-file"),
        pytest.param("token-file: none", "token-file: cannot read", id="token-file"),
        pytest.param("allow: apps", "allow: want a list, got text", id="allow"),
        pytest.param("deny: [apps, 7]", "deny[1]: want text, got a number", id="deny"),
        pytest.param("poll-interval: 5", "poll-interval: want text, got a number", id="number"),
        pytest.param("timeout: 25h", "timeout: want a duration such as 30s, up to 24h", id="long"),
        pytest.param("core-paths: [oapi]", "core-paths: want paths such as /apis", id="core-paths"),
        pytest.param("named-paths: [/a/]", "named-paths: want paths such as /apis", id="slash"),
        pytest.param("max-body-bytes: 1M", "max-body-bytes: want a number above 0", id="bytes"),
        pytest.param("max-body-bytes: true", "max-body-bytes: want a number above 0", id="true"),
    ],
)
def test_a_wrong_option_of_an_upstream_is_named_with_its_own_line(
    line: str, message: str, tmp_path: Path
) -> None:
    _refused_with(tmp_path, f"{UPSTREAM}    {line}\n", f":4, upstreams.east.example.{message}")


def test_a_context_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "contexts:\n- {name: west, context: {cluster: w}}\n- {name: south, context: {cluster: s}}\n"
    )
    text = f"upstreams:\n  east:\n    kubeconfig: {kubeconfig}\n    context: north\n"
    _refused_with(tmp_path, text, ":4, upstreams.east.context: ")
    flags = ("--kubeconfig", str(kubeconfig), "--context", "north")
    result = run(tmp_path, "--store=memory", "--http=127.0.0.1:0", "--grpc=off", *flags)
    assert result.exit_code == 2
    for word in ("--context: ", str(kubeconfig), "'north'", "west", "south"):
        assert word in result.output


def test_structured_values_are_read_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("http: off\nupstreams:\n  a: {url: x}\n  a.b:\n    url: z\n")
    context = click.Context(serve)
    assert read_config(path, context) == {"http": "false"}
    structured = context.meta[STRUCTURED]
    assert structured["upstreams"].value == {"a": {"url": "x"}, "a.b": {"url": "z"}}
    for said, line in (
        ("upstreams: no", 2),
        ("upstreams.a: no", 3),
        ("upstreams.a.url: no", 3),
        ("upstreams.a.other: no", 3),
        ("upstreams.a.b: no", 4),
        ("upstreams.a.b.url: no", 5),
        ("upstreams.c.url: no", 2),
    ):
        assert located(said, structured) == f"{path}:{line}, {said}"
    for said in ("upstreams are many", "upstream: no", "--upstream a: no", ""):
        assert located(said, structured) == said


def test_every_flag_is_a_key_and_a_flag_wins_over_it(tmp_path: Path) -> None:
    """Each value alone is refused with a message that shows that it was used."""
    for key, other in (
        ("etcd-certfile", "--etcd-certfile and --etcd-keyfile: "),
        ("etcd-keyfile", "--etcd-certfile and --etcd-keyfile: "),
        ("etcd-cafile", "--etcd-cafile: etcd: from-file: cannot be read"),
        ("etcd-username", "--etcd-username and --etcd-password-file: "),
        ("etcd-password-file", "--etcd-username and --etcd-password-file: "),
        ("tls-cert-file", "--tls-cert-file and --tls-private-key-file go together"),
        ("tls-private-key-file", "--tls-cert-file and --tls-private-key-file go together"),
        ("client-ca-file", "--client-ca-file and --token-auth-file need TLS"),
        ("token-auth-file", "--client-ca-file and --token-auth-file need TLS"),
        ("proxy-client-cert-file", "--proxy-client-cert-file and --proxy-client-key-file go"),
        ("proxy-client-key-file", "--proxy-client-cert-file and --proxy-client-key-file go"),
        ("kubeconfig", "--kubeconfig: "),
    ):
        result = run(tmp_path, "--store=memory", config=f"{key}: from-file\n")
        assert result.exit_code == 2, key
        assert other in result.output, key
    again = run(tmp_path, "--store=memory", "--etcd-cafile=flag", config="etcd-cafile: file\n")
    assert "--etcd-cafile: etcd: flag: cannot be read" in again.output


def test_the_list_of_a_key_gives_way_to_the_flag(tmp_path: Path) -> None:
    config = "context: [a, b]\nstore: memory\n"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("contexts: [{name: d, context: {cluster: d}}]\n")
    result = run(tmp_path, "--kubeconfig", str(kubeconfig), config=config)
    assert "no context 'a'" in result.output
    result = run(tmp_path, "--kubeconfig", str(kubeconfig), "--context", "c", config=config)
    assert "no context 'c'" in result.output
