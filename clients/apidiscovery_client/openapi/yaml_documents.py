"""Reads YAML as the JSON that it stands for."""

import json

import yaml

from apidiscovery_client.openapi.errors import UnsoundDocument


def as_json(data: bytes) -> bytes:
    """Return a text of JSON or YAML as JSON; JSON is returned as it is.

    Raises:
        UnsoundDocument: It is neither, or its YAML has aliases, which could stand for more than
            any memory holds, or several documents, or values that JSON does not have.
    """
    if data.lstrip()[:1] in (b"{", b"["):
        return data
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(data, yaml.CSafeLoader)):
            raise UnsoundDocument("it has YAML aliases, which are not supported")
        value: object = yaml.load(data, yaml.CSafeLoader)
        return json.dumps(value).encode()
    except RecursionError:
        raise UnsoundDocument("it is nested too deeply") from None
    except yaml.YAMLError as error:
        raise UnsoundDocument(f"it is not YAML: {' '.join(str(error).split())}") from None
    except (TypeError, ValueError) as error:
        raise UnsoundDocument(f"it has a value that JSON has not: {error}") from None
