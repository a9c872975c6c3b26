"""JSON and YAML as kubectl prints them."""

from typing import cast

from apidiscovery_formats import go_json


def json_text(value: object) -> str:
    """Return indented JSON as cli-runtime printers/json.go writes it, with a line feed."""
    return go_json.dumps_indented(value, 4) + "\n"


def yaml_text(value: object) -> str:
    """Return block YAML, keys sorted, as cli-runtime printers/yaml.go writes it."""
    from apidiscovery_formats import go_yaml  # noqa: PLC0415 - slow, and rarely needed

    return go_yaml.text(cast("go_json.JSONValue", value))
