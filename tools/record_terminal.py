"""Run commands and draw what they print as docs/images/terminal.svg, or with --check compare it.

The picture shows one command after the other, animated by CSS. It has no script and loads nothing.
The commands use packaged data only, so they print the same everywhere.

Usage:  python tools/record_terminal.py [--check]
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

REPO = Path(__file__).resolve().parent.parent
PICTURE = REPO / "docs" / "images" / "terminal.svg"

COMMANDS = (
    "apidiscovery diff kubernetes:1.24 kubernetes:1.25",
    "apidiscovery fleet kubernetes:1.31 kubernetes:1.33 kubernetes:1.36",
    "apidiscovery check -f web.yaml --against kubernetes:1.36",
)
WEB = """\
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replica: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}
"""

COLUMNS = 112
SCENE_S = 7
_DELAY_S = 1  # from a command to its output

_CHARACTER_PX, _LINE_PX, _MARGIN_PX, _BAR_PX = 7.8, 19, 16, 30
_BACKGROUND, _TEXT, _PROMPT, _BREAKING = "#16181d", "#d7dae0", "#7fc77f", "#f08a8a"


Line = tuple[str, str]  # its class in the picture, and its text


def recorded(command: str, folder: Path) -> list[Line]:
    """Return the lines that a command prints, those that are too long in parts."""
    words = shlex.split(command)
    program = Path(sys.executable).with_name(words[0])
    done = subprocess.run(
        [str(program), *words[1:]], cwd=folder, check=False, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):  # 1: there are differences
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stderr}")
    return [part for line in done.stdout.splitlines() for part in _wrapped(line)]


def _wrapped(line: str) -> Iterator[Line]:
    kind = "b" if line.startswith("! ") or ": error: " in line else "t"
    for start in range(0, max(len(line), 1), COLUMNS):
        yield kind, line[start : start + COLUMNS]


def drawn(scenes: Sequence[tuple[str, list[Line]]]) -> str:
    """Return a picture of commands with their output, one after the other, again and again."""
    lines = max(len(output) for _, output in scenes) + 1
    width = round(COLUMNS * _CHARACTER_PX + 2 * _MARGIN_PX)
    height = lines * _LINE_PX + _BAR_PX + _MARGIN_PX
    title = escape("; ".join(command for command, _ in scenes))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13">\n'
        f"<title>{title}</title>\n<style>\n{_style(len(scenes))}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{_BACKGROUND}"/>\n'
    )
    dots = "".join(f'<circle cx="{18 + 16 * n}" cy="16" r="5" fill="#4a4f5a"/>' for n in range(3))
    drawings = "".join(_scene(*scene, number) for number, scene in enumerate(scenes))
    return f"{head}{dots}\n{drawings}</svg>\n"


def _style(scenes: int) -> str:
    whole = scenes * SCENE_S
    shown, printed = 100 / scenes, 100 * _DELAY_S / whole
    text = f"text{{white-space:pre;fill:{_TEXT}}}.p{{fill:{_PROMPT}}}.b{{fill:{_BREAKING}}}\n"
    text += f"@keyframes s{{0%,{shown - 0.01:.2f}%{{opacity:1}}{shown:.2f}%,100%{{opacity:0}}}}\n"
    text += (
        f"@keyframes o{{0%,{printed - 0.01:.2f}%{{opacity:0}}{printed:.2f}%,100%{{opacity:1}}}}\n"
    )
    for number in range(scenes):
        begin = f"{number * SCENE_S - whole}s"  # in the middle of a round, never before one
        text += f".s{number}{{animation:s {whole}s {begin} infinite}}"
        text += f".s{number} .o{{animation:o {whole}s {begin} infinite}}\n"
    # The first scene alone for those who do not want motion.
    return text + (
        "@media (prefers-reduced-motion){g{animation:none!important;opacity:0}.s0,.o{opacity:1}}\n"
    )


def _scene(command: str, output: list[Line], number: int) -> str:
    lines = "".join(_text(at, line) for at, line in enumerate(output, 1))
    first = _text(0, ("p", f"$ {command}"))
    return f'<g class="s{number}">\n{first}<g class="o">\n{lines}</g>\n</g>\n'


def _text(at: int, line: Line) -> str:
    kind, text = line
    y = _BAR_PX + _MARGIN_PX + at * _LINE_PX
    return f'<text x="{_MARGIN_PX}" y="{y}" class="{kind}">{escape(text)}</text>\n'


def _scenes() -> Iterator[tuple[str, list[Line]]]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "web.yaml").write_text(WEB, encoding="utf-8")
        for command in COMMANDS:
            yield command, recorded(command, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw docs/images/terminal.svg.")
    parser.add_argument("--check", action="store_true", help="fail if the picture is stale")
    args = parser.parse_args()
    picture = drawn(list(_scenes()))
    if not args.check:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        sys.exit(f"{PICTURE} is stale; run: python tools/record_terminal.py")


if __name__ == "__main__":
    main()
