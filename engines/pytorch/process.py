"""What the runtime settles in the process around an engine: threads before, garbage after."""

from __future__ import annotations

import gc
import os


def set_threads(threads: int) -> None:
    """Numerical libraries read these once, when they are first loaded."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)


def settle_garbage() -> None:
    """Exempt what exists by now from garbage collection.

    A framework leaves about a million objects that live as long as the process; going over them
    again and again is no part of inference, and Python servers in production exempt them too. The
    collector itself stays on: what serving allocates, it pays for within the timed region, as it
    does for every user. Turning it off would flatter Python. Nothing is collected first: that
    would take longer than what is left over is worth.
    """
    gc.freeze()
