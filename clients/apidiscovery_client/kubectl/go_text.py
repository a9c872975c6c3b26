"""Writes JSON as Go programs print it."""

import json

_GO_ESCAPES = str.maketrans(
    {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
)


def json_text(value: object) -> str:
    """Return indented JSON as cli-runtime printers/json.go writes it, with a line feed."""
    return json.dumps(value, ensure_ascii=False, indent=4).translate(_GO_ESCAPES) + "\n"
