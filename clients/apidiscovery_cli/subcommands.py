"""Which subcommands there are, and where; none is imported before it is run."""

from dataclasses import dataclass
from importlib import import_module

PROGRAM = "apidiscovery"
COMPLETE_VARIABLE = "_APIDISCOVERY_COMPLETE"


@dataclass(frozen=True, slots=True)
class Known:
    """Where a subcommand is.

    Attributes:
        is_plain: Whether it is a `PlainCommand`, not one of click.
    """

    target: str
    summary: str
    is_plain: bool = False

    def load(self) -> object:
        """Import it."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


OWN = {
    "api-resources": Known(
        "apidiscovery_cli.commands.api_resources:API_RESOURCES",
        "Print the supported API resources on the server.",
        is_plain=True,
    ),
    "api-versions": Known(
        "apidiscovery_cli.commands.api_versions:API_VERSIONS",
        'Print the supported API versions on the server, in the form of "group/version".',
        is_plain=True,
    ),
    "apply": Known(
        "apidiscovery_cli.commands.apply:apply",
        "Register what manifests define.",
    ),
    "completion": Known(
        "apidiscovery_cli.commands.completion:completion",
        "Print the script that completes commands in a shell.",
    ),
    "conformance": Known(
        "apidiscovery_cli.commands.conformance:conformance",
        "Check whether a server does discovery as clients need it.",
    ),
    "diff": Known(
        "apidiscovery_cli.commands.diff:diff",
        "Tell what an upgrade, or another server, changes for clients.",
    ),
    "explain": Known(
        "apidiscovery_cli.commands.explain:explain",
        "Tell what a type of resources or one of its fields is.",
    ),
    "export": Known(
        "apidiscovery_cli.commands.export:export",
        "Write what a server serves in the forms that other tools read.",
    ),
    "fleet": Known(
        "apidiscovery_cli.commands.fleet:fleet",
        "Show clusters side by side: which serves which kind, in which versions.",
    ),
    "get": Known(
        "apidiscovery_cli.commands.get:get",
        "Show registrations, or the sources of what is served.",
    ),
    "openapi": Known(
        "apidiscovery_cli.commands.openapi:openapi",
        "Print, merge, check and convert OpenAPI documents.",
    ),
    "protos": Known(
        "apidiscovery_cli.commands.protos:protos",
        "Print the folder that holds the .proto files.",
    ),
    "resolve": Known(
        "apidiscovery_cli.commands.resolve:resolve",
        "Tell which resource a name means.",
    ),
    "snapshot": Known(
        "apidiscovery_cli.commands.snapshot:snapshot",
        "Save what a server serves in a file, and show such a file.",
    ),
    "storage-versions": Known(
        "apidiscovery_cli.commands.storage_versions:storage_versions",
        "Show which API server writes which version, and wait until all agree.",
    ),
    "watch": Known(
        "apidiscovery_cli.commands.watch:watch",
        "Print what changes in what a server serves.",
    ),
    "withdraw": Known(
        "apidiscovery_cli.commands.withdraw:withdraw",
        "Remove registrations.",
    ),
}
SUMMARIES = {"serve": "Serve API discovery over gRPC and HTTP."}
