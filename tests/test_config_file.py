"""The configuration file: keys, values, and what wins over what."""

import subprocess
from pathlib import Path

import click
import pytest
from apidiscovery_service.app.command import serve
from apidiscovery_service.app.config_file import read_config
from click.testing import CliRunner, Result
from server import COMMAND, environment


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
        pytest.param("catalog: all\n", ":1, catalog: 'all' is not one of", id="choice"),
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
def test_what_is_wrong_is_named_with_file_line_and_key(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(click.UsageError) as caught:
        read(tmp_path, text)
    assert caught.value.message.startswith(f"{tmp_path / 'config.yaml'}{message}")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
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
# Each address is one that is refused, so that nothing is started and the refusal tells which it is.

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
def test_the_address_is_that_of_the_first_who_names_one(
    *, flags: list[str], env: dict[str, str], config: str, wanted: str, tmp_path: Path
) -> None:
    result = run(tmp_path, *flags, env=env, config=config)
    assert result.exit_code == 2
    assert f"--http {wanted} is reachable from other machines" in result.output


def test_what_nobody_names_has_its_default(tmp_path: Path) -> None:
    result = run(tmp_path, "--grpc", FROM_FLAG)
    assert f"--grpc {FROM_FLAG} is reachable" in result.output
    options = {str(p.name): p for p in serve.params}
    assert (options["http"].default, options["grpc"].default) == (
        "127.0.0.1:8080",
        "127.0.0.1:50051",
    )


@pytest.mark.parametrize(
    ("flags", "env", "config"),
    [
        pytest.param(["--http", "off", "--grpc", "off"], {}, "", id="flags"),
        pytest.param(
            [], {"APIDISCOVERY_HTTP": "off", "APIDISCOVERY_GRPC": "off"}, "", id="variables"
        ),
        pytest.param([], {}, "http: off\ngrpc: 'off'\n", id="file"),
        pytest.param(
            ["--http=off"], {"APIDISCOVERY_GRPC": "off"}, f"http: {FROM_FILE}", id="mixed"
        ),
    ],
)
def test_both_servers_off_is_bad_usage_whoever_says_so(
    flags: list[str], env: dict[str, str], config: str, tmp_path: Path
) -> None:
    result = run(tmp_path, *flags, env=env, config=config)
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
        pytest.param([], {}, "htp: x\n", id="unknown-key"),
        pytest.param(["--htp", "x"], {}, "", id="unknown-flag"),
        pytest.param(["--http", "8080"], {}, "", id="flag"),
        pytest.param([], {"APIDISCOVERY_HTTP": "8080"}, "", id="variable"),
        pytest.param([], {"APIDISCOVERY_FEATURE_GATES": "Nope=true"}, "", id="gate"),
    ],
)
def test_bad_usage_and_configuration_exit_with_2(
    flags: list[str], env: dict[str, str], config: str, tmp_path: Path
) -> None:
    assert run(tmp_path, "--grpc", "off", *flags, env=env, config=config).exit_code == 2


def test_a_manifest_that_is_not_there_exits_with_2_and_names_it(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    config = tmp_path / "config.yaml"
    config.write_text(f"http: 127.0.0.1:0\ngrpc: off\nmanifests: [{missing}]\n", encoding="utf-8")
    command = [str(COMMAND), "serve", "--config", str(config)]
    ended = subprocess.run(  # noqa: S603
        command, capture_output=True, env=environment(tmp_path), timeout=30, check=False, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr == f"error: {missing}: cannot be read: No such file or directory\n"
