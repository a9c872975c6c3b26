"""Which packages of the extras are installed."""

from importlib.util import find_spec

from apidiscovery_client._errors import MissingExtra


def has_protobuf() -> bool:
    """Whether protobuf can be read; the extra `grpc` brings it."""
    return _is_installed("google.protobuf")


def see_that_grpc_is_installed() -> None:
    """Raise `MissingExtra` without a package of the extra `grpc`."""
    for module, package in (("grpc", "grpcio"), ("google.protobuf", "protobuf")):
        if not _is_installed(module):
            raise MissingExtra(package, "grpc")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
