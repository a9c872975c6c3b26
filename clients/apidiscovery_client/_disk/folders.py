"""Says where what can be asked again is kept on disk."""

import os
from pathlib import Path


def cache_folder(part: str) -> Path:
    """Return the folder of one cache: `apidiscovery/PART` where kubectl has its caches.

    That is `$KUBECACHEDIR`, or `~/.kube/cache` when that is not set. kubectl's rule and not that
    of the XDG Base Directory Specification, so that whoever moves, mounts or clears the caches of
    clusters deals with all of them at once; in a folder of our own, for kubectl's files are
    another format. Source: cli-runtime genericclioptions/config_flags.go `getDefaultCacheDir`.

    A user without a home gets a folder that cannot be made, which is the same as no cache.
    """
    try:
        base = os.environ.get("KUBECACHEDIR") or Path.home() / ".kube" / "cache"
    except RuntimeError:
        base = os.devnull
    return Path(base) / "apidiscovery" / part
