"""What is neither discovery nor OpenAPI, and asked for beside them."""

from apidiscovery_cli.conformance.check import Check, Profile, SkippedError, expect
from apidiscovery_cli.conformance.nodes import document
from apidiscovery_cli.conformance.subject import FORBIDDEN, NOT_FOUND, OK, Subject

_SECTION = "Version and health"
_HEALTH = ("/healthz", "/livez", "/readyz")


def _version(subject: Subject) -> None:
    reply = subject.get("/version", "application/json")
    if reply.status == NOT_FOUND and subject.profile is Profile.EXTENSION and not reply.is_html:
        raise SkippedError("the server does not tell its version")
    expect(reply.status == OK, reply, "200")
    root = document(reply)
    for name in ("major", "minor", "gitVersion"):
        _ = root[name].text


def _health(subject: Subject) -> None:
    replies = [subject.get(path) for path in _HEALTH]
    if all(reply.status in (NOT_FOUND, FORBIDDEN) and not reply.is_html for reply in replies):
        raise SkippedError("the server does not tell its health")
    for reply in replies:
        # /livez and /readyz came with 1.16.
        if reply.status == NOT_FOUND and reply.asked.target != "/healthz":
            continue
        expect(reply.status == OK, reply, "200 of a server that is well")
        expect(reply.body.strip() == b"ok", reply, "the text ok")


CHECKS = (
    Check(
        60,
        "/version tells major, minor and gitVersion",
        _SECTION,
        "kubectl version and many operators ask for it",
        "serve a JSON object with at least these three texts",
        _version,
    ),
    Check(
        61,
        "/healthz, /livez and /readyz say ok",
        _SECTION,
        "probes and load balancers ask there",
        "answer 200 and the text ok",
        _health,
    ),
)
