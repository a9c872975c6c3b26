"""The folder of the .proto files, for generating clients."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_ROOTS = (
    _PACKAGE.parent / "apidiscovery" / "protos",  # a wheel: beside this package
    _PACKAGE.parent.parent / "protos",  # an editable checkout: at the root of the repository
)


def protos_path() -> Path:
    """Return the directory to give to protoc's -I or to buf as a module.

    The files are below it by their import path, such as `apidiscovery/v2/discovery.proto`; it holds
    no others. Google's own, such as `google/protobuf/duration.proto`, come with protoc and buf.

    Raises:
        FileNotFoundError: The installation is incomplete.
    """
    for root in _ROOTS:
        if (root / "apidiscovery" / "v2" / "discovery.proto").is_file():
            return root
    places = " nor ".join(map(str, _ROOTS))
    raise FileNotFoundError(f"the .proto files are neither in {places}; install apidiscovery again")
