"""Reads common command lines without click.

It takes only what it is sure of: long options, and short ones alone, each with a value that is
right. Of everything else, mistakes and `--help` included, it says nothing, and click is asked.
"""

from collections.abc import Iterator, Mapping, Sequence

from apidiscovery_cli.plain_options import Option, Values


class _Unsure(Exception):
    """Click knows better."""


def read(
    options: Sequence[Option], words: Sequence[str], environment: Mapping[str, str]
) -> Values | None:
    """Return the values that click would give, None where only click can tell."""
    try:
        given = _given(options, words)
        of_environment = _of_environment(options, given, environment)
    except _Unsure:
        return None
    values = {option.key: option.absent for option in options}
    return Values({**values, **of_environment, **given}, frozenset(of_environment))


def _given(options: Sequence[Option], words: Sequence[str]) -> dict[str, object]:
    by_name = {name: option for option in options for name in option.names}
    given: dict[str, object] = {}
    repeated: dict[str, tuple[object, ...]] = {}
    rest = iter(words)
    for word in rest:
        name, equals, text = word.partition("=")
        option = by_name.get(name)
        if option is None or (equals and not name.startswith("--")):
            raise _Unsure
        if option.is_flag:
            if equals:
                raise _Unsure
            given[option.key] = True
        else:
            value = _value(option, text if equals else _next(option, rest))
            if option.is_repeatable:
                repeated[option.key] = (*repeated.get(option.key, ()), value)
            else:
                given[option.key] = value
    return {**given, **repeated}


def _next(option: Option, rest: Iterator[str]) -> str:
    text = next(rest, None)
    if text is None or option.bare is not None:  # then the next word need not be its value
        raise _Unsure
    return text


def _of_environment(
    options: Sequence[Option], given: Mapping[str, object], environment: Mapping[str, str]
) -> dict[str, object]:
    return {
        option.key: _value(option, text)
        for option in options
        if option.variable and option.key not in given
        if (text := environment.get(option.variable))
    }


def _value(option: Option, text: str) -> object:
    if option.path or option.reads is None:
        raise _Unsure
    if option.choices and text not in option.choices:
        raise _Unsure
    try:
        return option.reads(text)
    except ValueError:
        raise _Unsure from None
