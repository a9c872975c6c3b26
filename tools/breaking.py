"""Fail if the protos break users of main's protos (`buf breaking`, rules FILE).

They are compared with the first of these that applies:

1. the commit where HEAD left main (origin/main, else the local main): branches, unpushed commits;
2. HEAD, when main contains it and the protos on disk differ: uncommitted changes;
3. main before its last commit that touches protos: a clean checkout of main, as in CI. An intended
   break fails there until protos/ changes again.

`ACCEPTED` lists exceptions, each with its decision record: breaks from the protos named there are
printed but do not fail. Protos are named by their git tree, so that an exception ends with the
next change of protos/.

Without main, as in a checkout of one commit, HEAD is used. An error of git is a failure. It is not
a failure when there is nothing to compare with: main has no protos yet, a shallow clone has no
earlier ones, or the source tree is no git checkout.

Usage:  python tools/breaking.py
"""

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
BUF = Path(sys.executable).parent / "buf"  # not resolved: in a virtual environment it is a link
MAIN = ("refs/remotes/origin/main", "refs/heads/main")

# Decision record, by the git tree of protos/ that may be broken.
ACCEPTED = {
    "81a85e9bbe3b734f9f3ffa6e748ef212bd6429b4": "docs/decisions/0034-renames-in-the-protos.md",
    # The same before etcd's protos came.
    "d35fc59a311b9e1759bb756b6032ef59c6cd0fbf": "docs/decisions/0034-renames-in-the-protos.md",
}


class NothingToCompareError(Exception):
    """There are no earlier protos; the message says why."""


def git(*args: str, missing_ok: bool = False) -> str:
    """Return what git prints; the empty string if it fails and `missing_ok`."""
    return git_bytes(*args, missing_ok=missing_ok).decode().strip()


def git_bytes(*args: str, missing_ok: bool = False) -> bytes:
    command = ["git", "-C", str(REPO), *args]
    try:
        result = subprocess.run(command, check=False, capture_output=True)
    except FileNotFoundError:
        sys.exit("breaking: git is not installed, so there is nothing to compare protos/ with")
    if result.returncode == 0:
        return result.stdout
    if missing_ok:
        return b""
    return sys.exit(f"breaking: git {' '.join(args)} failed:\n{result.stderr.decode()}")


def commit(name: str) -> str:
    """Return the id of the commit `name`, or the empty string."""
    return git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", missing_ok=True)


def reference() -> tuple[str, str]:
    """Return the commit to compare with, and why it is that one."""
    git("rev-parse", "--git-dir")  # fails with git's own words if this is no repository it trusts
    head = commit("HEAD")
    name = next((name for name in MAIN if commit(name)), None)
    if name is None:
        if not head and not git("rev-list", "--all", "--max-count=1"):
            raise NothingToCompareError("the repository has no commit yet")
        name = "HEAD"
    if not head:
        return commit(name), f"{name}, HEAD having no commit yet"
    base = git("merge-base", "HEAD", name, missing_ok=True)
    if not base:
        sys.exit(f"breaking: HEAD and {name} have no common commit here; fetch the whole history")
    if base != head:
        return base, f"where HEAD left {name}"
    if git("status", "--porcelain", "--untracked-files=all", "--", "protos"):
        return head, f"HEAD, which is in {name}; protos/ has uncommitted changes"
    return before_last_change(head), f"the state before the last change of protos/ in {name}"


def before_last_change(head: str) -> str:
    """Return the first parent of the last commit up to `head` that touches protos/."""
    last = git("log", "--first-parent", "--max-count=1", "--format=%H", head, "--", "protos")
    if not last:
        raise NothingToCompareError("no commit has protos yet")
    if parent := commit(f"{last}^"):
        return parent
    if git("rev-parse", "--is-shallow-repository") == "true":
        raise NothingToCompareError(
            "the clone is shallow and has no earlier protos; fetch them all"
        )
    raise NothingToCompareError(f"{last[:12]} is the first commit and the only one with protos")


def compare(base: str) -> int:
    """Return buf's exit status for the working tree against the protos of the commit `base`.

    It is 0 when `ACCEPTED` has these protos.
    """
    tree = git("rev-parse", "--verify", "--quiet", f"{base}:protos", missing_ok=True)
    if not tree:
        raise NothingToCompareError(f"{base[:12]} has no protos yet")
    with tempfile.TemporaryDirectory() as directory:
        archive = io.BytesIO(git_bytes("archive", "--format=tar", base, "protos"))
        with tarfile.open(fileobj=archive) as tar:
            tar.extractall(directory, filter="data")
        against = str(Path(directory, "protos"))
        command = [str(BUF), "breaking", "--against", against]
        try:
            status = subprocess.run(command, check=False, cwd=REPO).returncode
        except FileNotFoundError:
            sys.exit(f"breaking: there is no {BUF}; run `make setup`")
    if status and tree in ACCEPTED:
        print(f"breaking: accepted by {ACCEPTED[tree]}")
        return 0
    return status


def main() -> int:
    if not (REPO / ".git").exists():
        print("breaking: skipped, this is no git checkout")
        return 0
    try:
        base, why = reference()
        print(f"breaking: comparing protos/ with {base[:12]}, {why}", flush=True)
        return compare(base)
    except NothingToCompareError as reason:
        print(f"breaking: nothing to compare with, {reason}")
        return 0


if __name__ == "__main__":
    raise SystemExit(main())
