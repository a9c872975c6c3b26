"""The command `apidiscovery demo`."""

import asyncio
import os
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from apidiscovery_service.app.command import ADDRESS
from apidiscovery_service.app.process import configure_logging
from apidiscovery_service.app.settings import Address
from apidiscovery_service.errors import DiscoveryError


@click.command(context_settings={"show_default": True})
@click.option(
    "--http",
    type=ADDRESS,
    metavar="HOST:PORT",
    default="127.0.0.1:8080",
    help="Where the pages and HTTP listen; port 0 takes a free one.",
)
def demo(http: Address | str) -> None:
    """Show a fleet of three clusters that change, until Ctrl-C.

    The clusters are recorded releases of Kubernetes with some custom resources, on this machine.
    One goes away for 20 s each minute. The history has a week, made of recordings. Everything is
    kept in a temporary folder, which is removed at the end.
    """
    if not isinstance(http, Address) or not http.is_loopback:
        raise click.UsageError(
            f"--http {http}: want a loopback address such as 127.0.0.1:8080, as callers of the demo"
            " are not identified"
        )
    configure_logging("warning", as_json=False)
    try:
        _check_free(http)
        click.echo("Starting three clusters and a server over them ...", err=True)
        # Imported here: `apidiscovery demo --help` does not need it.
        from apidiscovery_service.demo.fleet import run  # noqa: PLC0415

        with TemporaryDirectory(prefix="apidiscovery-demo-") as folder:
            asyncio.run(run(Path(folder), http, _show))
    except (DiscoveryError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


def _check_free(address: Address) -> None:
    """Raise OSError with the address if another process listens on it."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server((address.host, address.port), family=family).close()
    except OSError as error:
        raise OSError(
            f"--http {address}: {os.strerror(error.errno or 0)}; give another address, such as"
            " --http 127.0.0.1:0"
        ) from error


def _show(address: str) -> None:
    url = f"http://{address}"
    click.echo(f"""\
Pages      {url}/ui/
Merged     kubectl api-resources --server {url}
A cluster  kubectl explain deployment.spec.strategy --server {url}/clusters/east
End it with Ctrl-C.""")
