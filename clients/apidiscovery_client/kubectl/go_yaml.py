"""Writes YAML as Go programs print it."""

import functools

import yaml

_YAML_1_1_BOOLEANS = frozenset({"y", "Y", "n", "N"})
_NUMBERS_BEGIN = frozenset("+-.0123456789")
_LONGEST_PARSED = 100  # numbers aside, nothing longer is ambiguous; libyaml recurses into nesting
_UNFOLDED = 2**31 - 1


def yaml_text(value: object) -> str:
    """Return block YAML, keys sorted, as sigs.k8s.io/yaml writes it."""
    text: str = yaml.dump(
        value,
        Dumper=_GoDumper,
        allow_unicode=True,
        default_flow_style=False,
        width=_UNFOLDED,
    )
    return text


class _GoDumper(yaml.CSafeDumper):
    """Quotes as sigs.k8s.io/yaml does: double, where a plain scalar would not be a string.

    The emitter is libyaml, of which that of Go is a translation.
    """

    def ignore_aliases(self, data: object) -> bool:
        """Write a value that stands in two places twice: JSON has no aliases."""
        del data
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return yaml.ScalarNode(
            "tag:yaml.org,2002:str", text, style='"' if _is_ambiguous(text) else None
        )


@functools.lru_cache(4096)  # documents say the same few words again and again
def _is_ambiguous(text: str) -> bool:
    """Return whether a YAML reader would take the text for null, a boolean, a number or a date."""
    if text in _YAML_1_1_BOOLEANS:
        return True
    if len(text) > _LONGEST_PARSED:
        return text[0] in _NUMBERS_BEGIN
    try:
        plain: object = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError:
        return False
    except ValueError:  # a date that there is not, such as 2026-02-30
        return True
    return not isinstance(plain, (str, dict, list))


_GoDumper.add_representer(str, _GoDumper.represent_text)
