"""What operators get: alerts, a dashboard, a runbook and a systemd unit fit the server."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from certificates import Authority
from programs import curl
from repository import ROOT
from server import COMMAND, serving

from tools import find_tool

DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "apidiscovery.json"
RUNBOOK = ROOT / "docs" / "how-to" / "runbook.md"
OURS = re.compile(r"\b(?:aggregator|apidiscovery|apiserver|kubernetes|process)_[a-z_0-9]+")
# systemd's own grading: below 2.0 is "OK", an unhardened service has 9.6.
EXPOSURE = 20


def run(*command: str | Path) -> str:
    """Return what a command writes."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        command, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def alerts() -> list[dict[str, Any]]:
    """Return the alerting rules."""
    groups = cast("list[dict[str, Any]]", yaml.safe_load(ALERTS.read_text())["groups"])
    return [rule for group in groups for rule in group["rules"]]


def queries() -> Iterator[str]:
    """Yield the queries of the dashboard, with values for its variables."""
    dashboard = cast("dict[str, Any]", json.loads(DASHBOARD.read_text()))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "1m").replace("$job", "apidiscovery")


def test_every_metric_that_is_queried_is_one_of_the_server(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server(["127.0.0.1"])
    config = {
        "store": "memory",
        "tls-cert-file": str(pair.cert_file),
        "tls-private-key-file": str(pair.key_file),
        "token-auth-file": "tokens.csv",
        "access": [{"role": "admin", "users": ["prometheus"]}],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "tokens.csv").write_text("some-token,prometheus,1\n")
    with serving(tmp_path, "--config", "config.yaml") as server:
        trusted = ("--cacert", str(authority.ca_file), "--oauth2-bearer", "some-token")
        text = curl(tmp_path, *trusted, f"https://{server.http}/metrics").stdout
    known = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    known |= {f"{name}_bucket": kind for name, kind in known.items() if kind == "histogram"}
    expressions = [*(str(rule["expr"]) for rule in alerts()), *queries()]
    asked = {name for expression in expressions for name in OURS.findall(expression)}
    assert len(asked) > 15
    assert asked <= known.keys(), asked - known.keys()


def test_the_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{at}", "expr": query} for at, query in enumerate(queries())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    run(find_tool("promtool"), "check", "rules", file)


def test_alerts_come_after_their_time_and_not_for_a_healthy_server() -> None:
    tests = DEPLOY / "prometheus" / "alerts_test.yaml"
    run(find_tool("promtool"), "test", "rules", tests)
    tried = re.findall(r"alertname: (\w+)\n    eval_time", tests.read_text())
    assert tried == [rule["alert"] for rule in alerts()]


def test_the_runbook_has_an_entry_for_each_alert_and_no_other() -> None:
    entries = re.findall(r"^## (Apidiscovery\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert entries == [rule["alert"] for rule in alerts()]
    for rule in alerts():
        anchor = str(rule["alert"]).lower()
        assert rule["annotations"]["runbook"] == f"docs/how-to/runbook.md#{anchor}"


@pytest.mark.parametrize(
    "command",
    [("verify",), ("security", "--offline=true", f"--threshold={EXPOSURE}")],
    ids=["valid", "hardened"],
)
def test_the_unit_of_systemd_is_valid_and_hardened(command: list[str], tmp_path: Path) -> None:
    unit = tmp_path / "apidiscovery.service"
    text = (DEPLOY / "systemd" / unit.name).read_text()
    assert "/opt/apidiscovery/bin/apidiscovery" in text
    unit.write_text(text.replace("/opt/apidiscovery/bin/apidiscovery", str(COMMAND)))
    run(find_tool("systemd-analyze"), *command, unit)
