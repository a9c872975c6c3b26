"""Reports as text, JSON and Markdown; `tests/golden/diffing` has those of known upgrades."""

import json
from dataclasses import replace

import pytest
from apidiscovery_cli.reports.diff import render
from apidiscovery_cli.reports.forms import FORMATS, Format
from apidiscovery_client.diffing import Doubt, Finding, Report, Rule, Severity, compare
from apidiscovery_client.snapshots.releases import release
from repository import GOLDEN

RECORDED = GOLDEN / "diffing"
ENDINGS: dict[Format, str] = {"text": "txt", "json": "json", "markdown": "md"}

REPORT = Report(
    "one",
    "other",
    (
        Finding(Rule.GROUP_REMOVED, "g.example", "removed, with v1"),
        Finding(Rule.VERB_ADDED, "pods.v1.", "supports watch", after="watch"),
        Finding(Rule.NAME_MOVED, "deploy", "it now means another", "a", "b"),
    ),
    (Doubt("/api", "refused"),),
)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("upgrade", ["1.15-1.16", "1.21-1.22", "1.24-1.25"])
def test_known_upgrade_is_rendered_as_recorded(upgrade: str, form: Format) -> None:
    before, after = map(release, upgrade.split("-"))
    text = render(compare(before, after), form)
    assert text == (RECORDED / f"{upgrade}.{ENDINGS[form]}").read_text()


def test_text_marks_what_breaks_and_counts() -> None:
    assert render(REPORT, "text").splitlines() == [
        "one -> other: 1 breaking, 1 compatible, 1 info",
        "! g.example: removed, with v1 [group-removed]",
        "+ pods.v1.: supports watch [verb-added]",
        "  deploy: it now means another [name-moved]",
        "? /api: refused",
    ]


def test_colours_are_there_only_when_told() -> None:
    assert "\x1b" not in render(REPORT, "text")
    lines = render(REPORT, "text", coloured=True).splitlines()
    assert lines[1].startswith("\x1b[31m! ")
    assert lines[1].endswith("\x1b[0m")
    assert "\x1b" not in render(REPORT, "markdown", coloured=True)


def test_only_what_breaks_is_listed_when_nothing_else_is_wanted() -> None:
    lines = render(REPORT, "text", breaking_only=True).splitlines()
    assert lines[0] == "one -> other: 1 breaking, 1 compatible, 1 info"
    assert [line[0] for line in lines[1:]] == ["!", "?"]


def test_json_says_what_it_is_and_leaves_out_what_is_empty() -> None:
    document = json.loads(render(REPORT, "json"))
    assert (document["apiVersion"], document["kind"]) == ("apidiscovery/v1", "DiscoveryDiff")
    assert document["counts"] == {"breaking": 1, "compatible": 1, "info": 1}
    assert document["same"] is False
    assert document["findings"][0] == {
        "severity": "breaking",
        "rule": "group-removed",
        "subject": "g.example",
        "message": "removed, with v1",
    }
    assert document["doubts"] == [{"subject": "/api", "reason": "refused"}]


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_found_is_said(form: Format) -> None:
    text = render(Report("one", "other", ()), form)
    assert "no differences" in text.lower() or json.loads(text)["same"] is True


@pytest.mark.parametrize("form", FORMATS)
def test_names_of_servers_cannot_write_to_the_terminal(form: Format) -> None:
    bad = Finding(Rule.GROUP_REMOVED, "g\x1b[2J", "m\r\n\x9b\x00")
    report = replace(REPORT, before="b\x1b]0;", findings=(bad,), doubts=(Doubt("d\x1b", "r\n"),))
    text = render(report, form)
    assert not {"\x1b", "\r", "\x9b", "\x00"} & set(text)


def test_markdown_of_names_is_text() -> None:
    bad = Finding(Rule.GROUP_REMOVED, "a`b", "see <img> [x](y) *z*")
    text = render(replace(REPORT, findings=(bad,)), "markdown")
    assert "`a'b`: see \\<img\\> \\[x\\](y) \\*z\\*" in text


def test_every_rule_has_a_severity_and_removals_break() -> None:
    for rule in Rule:
        assert rule.severity in Severity
        assert not rule.endswith("-removed") or rule.severity == Severity.BREAKING
        assert not rule.endswith("-added") or rule.severity == Severity.COMPATIBLE
    assert {rule.severity for rule in (Rule.KIND_CHANGED, Rule.SCOPE_CHANGED)} == {
        Severity.BREAKING
    }
    assert Rule.STORAGE_VERSION_CHANGED.severity == Severity.INFO
