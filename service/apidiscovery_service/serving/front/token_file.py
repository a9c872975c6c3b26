"""The token file, read again when it changes."""

from collections.abc import Callable
from pathlib import Path

from apidiscovery_service.access.tokens import Tokens, parse_tokens
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.serving.front.metrics import FrontMetrics
from apidiscovery_service.serving.front.reload import Reload


class TokenFile(Reload[Tokens]):
    """Keeps the tokens at what `--token-auth-file` says.

    Args:
        path: The file.
        use: Takes the tokens after each change, not at first; `Access.use_tokens`.
        metrics: Where reads are counted.
    """

    def __init__(
        self,
        path: Path,
        use: Callable[[Tokens], None] = lambda _: None,
        metrics: FrontMetrics | None = None,
    ) -> None:
        def read() -> Tokens:
            try:
                content = path.read_bytes()
            except OSError as error:
                raise InvalidConfiguration(f"{path}: cannot be read: {error.strerror}") from None
            return parse_tokens(content, str(path))

        super().__init__("token-auth-file", (path,), read, use, metrics)

    def warnings(self) -> list[str]:
        """Return what is wrong or odd, for `/readyz?verbose`."""
        odd = [f"token-auth-file: {text}" for text in self.value.warnings]
        return super().warnings() + odd
