"""The file `releases.json`, which docs/releases.md describes: what each release served."""

from importlib.resources import files


def facts_text() -> bytes:
    """Return the file: JSON of one line for each resource, ASCII."""
    return files("apidiscovery_releases").joinpath("releases.json").read_bytes()
