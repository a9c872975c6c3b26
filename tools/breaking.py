"""Fail if the protos break users of main's protos (`buf breaking`, rules FILE).

They are compared with the first of these that applies:

1. the commit where HEAD left main (origin/main, else the local main): branches, unpushed commits;
2. HEAD, when main contains it and the protos on disk differ: uncommitted changes;
3. main before its last commit that touches protos: a clean checkout of main, as in CI. An intended
   break fails there until protos/ changes again.

`ACCEPTED` lists exceptions, each with its decision record: breaks from the protos named there are
printed but do not fail. Protos are named by their git tree, so that an exception ends with the
next change of protos/.

Without main, as in a checkout of one commit, HEAD is used. An error of git is a failure. It is no
failure when there is nothing to compare with: there are no earlier protos, a shallow clone does not
have them, or the source tree is not a git checkout.

Usage:  python tools/breaking.py
"""

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


def git(*args: str) -> str:
    """Return what git prints; end with its own words if it fails."""
    command = ["git", "-C", str(REPO), *args]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"breaking: git {' '.join(args)} failed:\n{done.stderr}")
    return done.stdout.strip()


def object_id(name: str) -> str:
    """Return the id of a commit or tree; the empty string if there is none."""
    command = ["git", "-C", str(REPO), "rev-parse", "--verify", "--quiet", name]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def reference() -> tuple[str, str]:
    """Return the commit to compare with, and why it is that one."""
    git("rev-parse", "--git-dir")  # fails with git's message if this is not a repository it trusts
    head = object_id("HEAD^{commit}")
    if not head:
        raise NothingToCompareError("HEAD has no commit yet")
    name = next((name for name in MAIN if object_id(name)), "HEAD")
    base = git("merge-base", "HEAD", name)
    if base != head:
        return base, f"where HEAD left {name}"
    if git("status", "--porcelain", "--untracked-files=all", "--", "protos"):
        return head, f"HEAD, which is in {name}; protos/ has uncommitted changes"
    return before_last_change(head), f"the state before the last change of protos/ in {name}"


def before_last_change(head: str) -> str:
    """Return the first parent of the last commit up to `head` that touches protos/."""
    last = git("log", "--first-parent", "--max-count=1", "--format=%H", head, "--", "protos")
    parent = object_id(f"{last}^") if last else ""
    if parent:
        return parent
    if git("rev-parse", "--is-shallow-repository") == "true":
        raise NothingToCompareError(
            "the clone is shallow and has no earlier protos; fetch them all"
        )
    raise NothingToCompareError("no earlier commit has protos")


def compare(base: str) -> int:
    """Return buf's exit status for the working tree against the protos of the commit `base`.

    It is 0 when `ACCEPTED` has these protos.
    """
    tree = object_id(f"{base}:protos")
    if not tree:
        raise NothingToCompareError(f"{base[:12]} has no protos yet")
    with tempfile.TemporaryDirectory() as directory:
        archive = str(Path(directory, "protos.tar"))
        git("archive", "--format=tar", f"--output={archive}", base, "protos")
        with tarfile.open(archive) as tar:
            tar.extractall(directory, filter="data")
        command = [str(BUF), "breaking", "--against", str(Path(directory, "protos"))]
        status = subprocess.run(command, check=False, cwd=REPO).returncode
    if status and tree in ACCEPTED:
        print(f"breaking: accepted by {ACCEPTED[tree]}")
        return 0
    return status


def main() -> int:
    if not (REPO / ".git").exists():
        print("breaking: skipped, this is not a git checkout")
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
