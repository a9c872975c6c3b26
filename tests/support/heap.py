"""Skip objects that stay in garbage collections of tests."""

import gc


def freeze_heap() -> None:
    """Collect garbage, and exclude the remaining objects from later collections.

    A second call also collects objects that have become garbage since the first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
