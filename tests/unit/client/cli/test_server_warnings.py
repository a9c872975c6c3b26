"""A server's warnings are printed on stderr, as kubectl prints them."""

from dataclasses import replace

import pytest
from command_line import run
from fake_api_server import FakeApiServer, aggregated

GROUP = {"metadata": {"name": "example.com"}, "versions": [{"version": "v1"}]}


@pytest.mark.parametrize(
    "words",
    [
        "api-versions --server URL",
        "diff URL kubernetes:1.30",
        "fleet URL",
        "snapshot save - --server URL",
    ],
)
def test_a_warning_of_two_answers_is_printed_once(
    capsys: pytest.CaptureFixture[str], words: str
) -> None:
    warned = {"Warning": '299 - "this is what cluster \\"a\\" said last"'}
    routes = {
        f"/clusters/a{path}": replace(answer, headers=warned)
        for path, answer in (("/api", aggregated()), ("/apis", aggregated(GROUP)))
    }
    with FakeApiServer(routes) as server:
        found = run(capsys, *words.replace("URL", f"{server.url}/clusters/a").split())
    assert found.stderr == 'Warning: this is what cluster "a" said last\n'
