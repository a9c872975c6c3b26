"""This package: its version, which extras are installed, and its logger."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from apidiscovery_client._errors import MissingExtra

if TYPE_CHECKING:
    import logging


VERSION = "0.1.0"


def has_protobuf() -> bool:
    """Whether protobuf can be read; the extra `grpc` brings it."""
    return _is_installed("google.protobuf")


def require_grpc() -> None:
    """Raise `MissingExtra` without a package of the extra `grpc`."""
    for module, package in (("grpc", "grpcio"), ("google.protobuf", "protobuf")):
        if not _is_installed(module):
            raise MissingExtra(package, "grpc")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


_CALLER = 2  # frames between that of the standard library and the caller's

PACKAGE = "apidiscovery_client"


class Log:
    """A logger of the standard library, which is imported with the first message.

    Without a configuration of logging nothing is shown.

    Args:
        name: `apidiscovery_client`, or a name below it.
    """

    def __init__(self, name: str = PACKAGE) -> None:
        self._name = name

    def debug(self, message: str, *args: object) -> None:
        """Log a message, formatted with the arguments, at level DEBUG."""
        self._logger().debug(message, *args, stacklevel=_CALLER)

    def info(self, message: str, *args: object) -> None:
        """Log at level INFO."""
        self._logger().info(message, *args, stacklevel=_CALLER)

    def warning(self, message: str, *args: object) -> None:
        """Log at level WARNING."""
        self._logger().warning(message, *args, stacklevel=_CALLER)

    def _logger(self) -> "logging.Logger":
        import logging  # noqa: PLC0415 - it takes longer than asking a server on this machine

        package = logging.getLogger(PACKAGE)
        if not package.handlers:
            package.addHandler(logging.NullHandler())
        return logging.getLogger(self._name)
