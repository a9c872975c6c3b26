"""Package the recorded responses of kube-apiservers, for `clients/apidiscovery_releases/data`.

RECORDINGS has a folder for each release, such as `1.31`, with the answers of an empty server with
default settings:

- `version.json`, `api.json`, `apis.json`: `/version`, `/api`, `/apis`;
- `api.v2.json`, `apis.v2.json`, `api.v2beta1.json`, `apis.v2beta1.json`: the latter two aggregated,
  if the release has that form;
- `lists/api__v1.json`, `lists/apis__GROUP__VERSION.json`: the lists of resources;
- `openapi.tar.xz` with `openapi/v3/index.json`, `openapi/v3/apis__GROUP__VERSION.json` for each
  path of the index with `__` for `/`, and `openapi/v2.json`; all JSON, as served.

Each becomes `1.NN.tar.xz`. `SHA256SUMS` has the SHA-256 of each archive without its compression, so
that it does not depend on the version of xz. The same input gives the same sums.

With --check nothing is written: archives must match `SHA256SUMS`, and the recordings if these are
given.

Usage:  python tools/package_release.py RECORDINGS
        python tools/package_release.py --check [RECORDINGS]
"""

import argparse
import hashlib
import io
import lzma
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "clients" / "apidiscovery_releases" / "data"
SUMS = "SHA256SUMS"

# In this order, so that discovery is read without unpacking the documents.
_DISCOVERY = (
    *("version.json", "api.json", "apis.json", "api.v2.json", "apis.v2.json"),
    *("api.v2beta1.json", "apis.v2beta1.json"),
)
_OPTIONAL = _DISCOVERY[3:]


def files(recorded: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of an archive, in order."""
    for name in _DISCOVERY:
        if name not in _OPTIONAL or (recorded / name).exists():
            yield name, (recorded / name).read_bytes()
    for file in sorted((recorded / "lists").iterdir()):
        yield f"lists/{file.name}", file.read_bytes()
    with tarfile.open(recorded / "openapi.tar.xz") as archive:
        members = {member.name: member for member in archive if member.isfile()}
        index = "openapi/v3/index.json"
        for name in (index, *sorted(members.keys() - {index})):
            if name not in members:
                sys.exit(f"{recorded / 'openapi.tar.xz'} has no {name}")
            content = archive.extractfile(members[name])
            if content is None:
                sys.exit(f"{name} of {recorded / 'openapi.tar.xz'} is not a file")
            yield name, content.read()


def archived(contents: Iterable[tuple[str, bytes]]) -> bytes:
    """Return files as one archive, not compressed."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in contents:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return plain.getvalue()


def recordings(folder: Path) -> list[Path]:
    """Return the folders of releases, the oldest first."""
    found = sorted(folder.glob("1.*"), key=lambda one: int(one.name.removeprefix("1.")))
    if not found:
        sys.exit(f"{folder} has no folder of a release, such as 1.31")
    return found


def package(folder: Path, data: Path) -> None:
    """Write an archive of each release, and their sums."""
    lines: list[str] = []
    for recorded in recordings(folder):
        plain = archived(files(recorded))
        packed = lzma.compress(plain, preset=9 | lzma.PRESET_EXTREME)
        (data / f"{recorded.name}.tar.xz").write_bytes(packed)
        lines.append(_line(recorded.name, plain))
        print(f"{recorded.name}: {len(packed)} bytes, {len(plain)} unpacked")
    (data / SUMS).write_text("".join(lines))


def check(folder: Path | None, data: Path) -> list[str]:
    """Return a line for each release that is not as it should be."""
    wanted = (data / SUMS).read_text().splitlines(keepends=True)
    present = [
        _line(file.name.removesuffix(".tar.xz"), lzma.decompress(file.read_bytes()))
        for file in sorted(data.glob("*.tar.xz"))
    ]
    compared = [(present, "the archives")]
    if folder is not None:
        fresh = [_line(one.name, archived(files(one))) for one in recordings(folder)]
        compared.append((fresh, str(folder)))
    return [
        f"{line.split()[1]}: {SUMS} and {what} differ"
        for found, what in compared
        for line in sorted(set(found) ^ set(wanted))
    ]


def _line(release: str, plain: bytes) -> str:
    return f"{hashlib.sha256(plain).hexdigest()}  {release}.tar\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Package recorded responses of kube-apiservers.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if they differ")
    parser.add_argument("recordings", type=Path, nargs="?", help="a folder for each release")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the archives")
    options = parser.parse_args()
    if not options.check:
        if options.recordings is None:
            parser.error("want RECORDINGS, or --check")
        package(options.recordings, options.data)
        return 0
    lines = check(options.recordings, options.data)
    if lines:
        print(*lines, "run tools/package_release.py RECORDINGS", sep="\n", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
