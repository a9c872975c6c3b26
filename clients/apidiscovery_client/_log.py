"""A logger that costs nothing until there is something to say."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

_CALLER = 2  # frames between the standard library's and that of who logs

PACKAGE = "apidiscovery_client"


class Log:
    """A logger of the standard library, which is imported with the first message.

    Who does not configure logging sees nothing, as is the custom of libraries.

    Args:
        name: That of the package, or below it.
    """

    def __init__(self, name: str = PACKAGE) -> None:
        self._name = name

    def debug(self, message: str, *args: object) -> None:
        """Log a message with the arguments in it, at level DEBUG."""
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
