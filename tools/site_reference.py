"""Parts of the reference that are made from the code, as Markdown, by their markers."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

import click
import site_protos
from apidiscovery_cli.group import apidiscovery
from apidiscovery_client.checking import model as checking
from apidiscovery_client.diffing import findings
from apidiscovery_client.upgrading import model as upgrading
from apidiscovery_service.app.command import serve
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.front.metrics import FrontMetrics
from apidiscovery_service.serving.unread import UnreadBudget
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

_WIDTH = 100

_CLIENT = Path("clients/apidiscovery_client")
_OTHER_MODULES = ("apidiscovery_releases", "apidiscovery_service.extension_server")


def python_modules(root: Path) -> list[str]:
    """Return the public modules of the packages for Python programs, sorted."""
    names = {path.stem for path in (root / _CLIENT).iterdir() if _is_module(path)}
    ours = [f"apidiscovery_client.{name}" for name in names if not name.startswith("_")]
    return ["apidiscovery_client", *sorted(ours), *_OTHER_MODULES]


def _is_module(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").exists()


def _python(root: Path) -> str:
    return "".join(f"- [{name}]({name}.md)\n" for name in python_modules(root))


def _cli(_root: Path) -> str:
    context = _context(apidiscovery, "apidiscovery", None)
    parts = [_command(context, 2)]
    for name in apidiscovery.list_commands(context):
        command = apidiscovery.get_command(context, name)
        if command is not None and not command.hidden:
            parts += _commands(name, command, context)
    return "\n".join(parts)


def _commands(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    """Yield a section for a command and for each of its subcommands."""
    context = _context(command, name, parent)
    yield _command(context, 2 if parent.parent is None else 3)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            if below is not None:
                yield from _commands(each, below, context)


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        help_option_names=["-h", "--help"],
    )


def _command(context: click.Context, level: int) -> str:
    text = re.sub(r"\s+$", "", context.get_help(), flags=re.MULTILINE)
    return f"{'#' * level} `{context.command_path}`\n\n```text\n{text}\n```\n"


def _flags(_root: Path) -> str:
    context = click.Context(serve, info_name="serve")
    rows = [_flag(option, context) for option in serve.params if isinstance(option, click.Option)]
    return _table(("flag", "default", ""), rows)


def _flag(option: click.Option, context: click.Context) -> tuple[str, ...]:
    name = max(option.opts, key=len)
    kind = "" if option.is_flag else option.make_metavar(context)
    default = option.default if option.show_default is not False else ""
    shown = f"`{default}`" if isinstance(default, str | int | float) and default else ""
    text, *inferred = (option.help or "").split("  [default: ")
    if inferred:
        shown = inferred[0].removesuffix("]")
    if default is False:
        shown = "off"
    return f"`{name} {kind}`".replace(" `", "`"), shown, text


def _gates(_root: Path) -> str:
    rows = [(f"`{name}`", str(is_on).lower()) for name, is_on in FeatureGates().enabled.items()]
    return _table(("feature gate", "default"), rows)


def _metrics(_root: Path) -> str:
    metrics = Metrics()
    collectors: list[Collector] = [UnreadBudget(), FrontMetrics(), *_registered(metrics)]
    rows = {
        (f"`{_sample_name(metric)}`", metric.type, _labels(collector, metric), metric.documentation)
        for collector in collectors
        for metric in collector.collect()
    }
    return _table(("name", "type", "labels", ""), sorted(rows))


def _registered(metrics: Metrics) -> Iterable[Collector]:
    registry = vars(metrics)["_registry"]
    return cast("Iterable[Collector]", vars(registry)["_collector_to_names"])


def _sample_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _labels(collector: Collector, metric: Metric) -> str:
    named = vars(metric).get("_labelnames") or vars(collector).get("_labelnames", ())
    return ", ".join(f"`{name}`" for name in cast("Iterable[str]", named))


def _rules(_root: Path) -> str:
    sections = (
        ("diff", "severity", [(rule, rule.severity) for rule in findings.Rule]),
        ("check", "severity", [(rule, rule.severity) for rule in checking.Rule]),
        ("upgrade", "urgency", [(rule, rule.urgency) for rule in upgrading.Rule]),
    )
    return "\n".join(
        f"## `apidiscovery {command}`\n\n"
        + _table(("rule", word), [(f"`{rule}`", str(weight)) for rule, weight in rules])
        for command, word, rules in sections
    )


def _decisions(root: Path) -> str:
    paths = sorted((root / "docs/decisions").glob("0*.md"))
    return "".join(f"- [{_title(path)}]({path.name})\n" for path in paths)


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


GENERATED: Mapping[str, Callable[[Path], str]] = {
    "cli": _cli,
    "decisions": _decisions,
    "feature-gates": _gates,
    "flags": _flags,
    "grpc": site_protos.services,
    "metrics": _metrics,
    "python": _python,
    "rules": _rules,
}
