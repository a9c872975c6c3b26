"""Command lines that are read without click say what click would say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import click
import pytest
from apidiscovery_cli import plain_parser
from apidiscovery_cli.click_options import click_command
from apidiscovery_cli.commands.api_resources import API_RESOURCES
from apidiscovery_cli.commands.api_versions import API_VERSIONS
from apidiscovery_cli.option_values import boolean
from apidiscovery_cli.plain_options import Option, PlainCommand, Values
from hypothesis import given, settings
from hypothesis import strategies as st

_NAMES = [name for option in API_RESOURCES.options for name in option.names]
_TEXTS = [
    "",
    "-",
    "--",
    "wide",
    "json",
    "name",
    "true",
    "FALSE",
    "maybe",
    "5s",
    "0",
    "-1s",
    "apps",
    "get,list",
    "10.0.0.1:6443",
    "https://host/prefix/",
    "ftp://host",
    "http://user:word@host",
    "a=b",
    "=",
    "/nonexistent",
    "é",
    "two words",
]
_WORDS = st.one_of(
    st.sampled_from(_NAMES),
    st.sampled_from(_TEXTS),
    st.sampled_from(["-h", "--help", "-owide", "-o=wide", "-so", "--out", "--output-", "pods"]),
    st.builds("{}={}".format, st.sampled_from(_NAMES), st.sampled_from(_TEXTS)),
)
# What people type: a name, then what may be its value.
_GIVEN = st.lists(
    st.one_of(
        _WORDS.map(lambda word: [word]),
        st.tuples(st.sampled_from(_NAMES), st.sampled_from(_TEXTS)).map(list),
    ),
    max_size=5,
).map(lambda parts: [word for part in parts for word in part])
_ENVIRONMENTS = st.dictionaries(
    st.sampled_from(["APIDISCOVERY_SERVER", "APIDISCOVERY_TOKEN"]), st.sampled_from(_TEXTS)
)


def by_click(
    plain: PlainCommand, words: Sequence[str], environment: Mapping[str, str]
) -> Values | None:
    """Return what click reads; None where it refuses the command line, or helps."""
    found: list[Values] = []
    command = click_command(replace(plain, run=found.append))
    with pytest.MonkeyPatch.context() as patch:
        for option in plain.options:
            if option.variable:
                patch.delenv(option.variable, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            command.main(list(words), standalone_mode=False)
        except click.ClickException:
            return None
    return found[0] if found else None


@pytest.mark.parametrize("plain", [API_RESOURCES, API_VERSIONS], ids=lambda plain: plain.name)
@settings(max_examples=150, deadline=None)
@given(words=_GIVEN, environment=_ENVIRONMENTS)
def test_what_is_read_without_click_is_what_click_reads(
    plain: PlainCommand, words: list[str], environment: dict[str, str]
) -> None:
    read = plain_parser.read(plain.options, words, environment)
    if read is not None:
        assert read == by_click(plain, words, environment)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "-o wide",
        "--output=json --no-headers",
        "-o name --api-group=apps --namespaced=false",
        "--verbs=list,watch --verbs get --categories all --sort-by name",
        "-s 10.0.0.1:6443 --request-timeout 5s",
        "--server https://host --insecure-skip-tls-verify --tls-server-name other",
        "--kubeconfig a --context b --cluster c --user d --token e",
        "--as joe --as-group a --as-group b --as-uid 1",
        "--cached --no-cache --disable-compression",
        "--api-group=",
    ],
)
@pytest.mark.parametrize(
    "environment",
    [{}, {"APIDISCOVERY_SERVER": "host:1", "APIDISCOVERY_TOKEN": "abc"}],
    ids=["bare", "with variables"],
)
def test_common_command_lines_are_read_without_click(
    line: str, environment: dict[str, str]
) -> None:
    read = plain_parser.read(API_RESOURCES.options, line.split(), environment)
    assert read is not None
    assert read == by_click(API_RESOURCES, line.split(), environment)


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "-h",
        "pods",
        "-owide",
        "-o=wide",
        "--output",
        "--output=xml",
        "--no-headers=true",
        "--namespaced",
        "--namespaced -o wide",
        "--certificate-authority ca.crt",
        "--unknown",
        "--",
        "--request-timeout=soon",
        "--server=ftp://host",
    ],
)
def test_what_is_not_certain_is_left_to_click(line: str) -> None:
    assert plain_parser.read(API_RESOURCES.options, line.split(), {}) is None


def test_a_variable_that_is_wrong_is_left_to_click() -> None:
    assert (
        plain_parser.read(API_VERSIONS.options, [], {"APIDISCOVERY_SERVER": "ftp://host"}) is None
    )


def test_what_the_command_line_says_is_not_of_the_environment() -> None:
    values = plain_parser.read(
        API_VERSIONS.options,
        ["--token=mine"],
        {"APIDISCOVERY_TOKEN": "theirs", "APIDISCOVERY_SERVER": "host"},
    )
    assert values is not None
    assert values.of_environment == {"server"}
    assert (values.given["token"], values.given["server"]) == ("mine", "http://host")


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_what_go_reads_as_true(text: str) -> None:
    assert boolean(text)


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_what_go_reads_as_false(text: str) -> None:
    assert not boolean(text)


@pytest.mark.parametrize("text", ["", "yes", "on", "tRUE", "2"])
def test_what_go_does_not_read_as_a_boolean(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid boolean"):
        boolean(text)


def test_an_option_is_called_by_its_first_name_unless_it_says_otherwise() -> None:
    assert Option(("--as-uid", "-u")).key == "as_uid"
    assert Option(("--as",), parameter="as_user").key == "as_user"
