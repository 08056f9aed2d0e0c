"""Prepares the process around an engine: sets threads before loading, and settles garbage
collection after it."""

from __future__ import annotations

import gc
import os


def set_threads(threads: int) -> None:
    """Set the number of threads of numerical libraries, which read it once, when they are first
    loaded."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)


def settle_garbage() -> None:
    """Exempt what exists by now from garbage collection.

    A framework leaves about a million objects that live as long as the process; going over them
    again and again is no part of inference, and Python servers in production exempt them too. The
    collector itself stays on: what serving allocates, it pays for within the timed region, as it
    does for every user. Turning it off would flatter Python. Nothing is collected first, because
    that takes longer than the freed memory is worth.
    """
    gc.freeze()
