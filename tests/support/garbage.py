"""Collections of garbage that take as long as there is of it, and not of what stays."""

import gc


def set_aside() -> None:
    """Collect all that is garbage now, and keep what is left out of collections from now on.

    Called again, it looks through that, too: what was in use the last time may be garbage since.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
