"""The options for subcommands whose arguments name servers, files and releases."""

from collections.abc import Sequence

import click
from apidiscovery_client._connecting import Flags, open_blocking
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.model import Snapshot
from click.core import ParameterSource

from apidiscovery_cli.connection_options import ACCESS, KUBECONFIG
from apidiscovery_cli.sides import CONTEXT, Connect

# How to ask; which servers, arguments say.
ASKING = (KUBECONFIG[0], *ACCESS)
SIDE_HELP = (
    "a file (of 'apidiscovery snapshot save', or an aggregated document), - for standard input,"
    " a URL (https://host:6443, grpc://host:50051), context:NAME of the kubeconfig, or a release"
    " such as kubernetes:1.30"
)


def asking(flags: Flags) -> Connect:
    """Return what asks servers by these flags; a URL is asked without a kubeconfig."""

    def connect(target: str | None, context: str | None) -> Snapshot:
        kubeconfig = None if target else flags.get("kubeconfig")
        own: Flags = {**flags, "context": context, "kubeconfig": kubeconfig}
        opened = open_blocking(target, **own)
        with DiscoveryClient(opened.transport) as client:
            return client.refresh()

    return connect


def flags_for(flags: Flags, sides: Sequence[str]) -> Flags:
    """Return the flags without a token of the environment where a side is a context.

    Contexts have credentials of their own.
    """
    if any(side.startswith(CONTEXT) for side in sides):
        source = click.get_current_context().get_parameter_source("token")
        if source is ParameterSource.ENVIRONMENT:
            return {**flags, "token": None}
    return flags
