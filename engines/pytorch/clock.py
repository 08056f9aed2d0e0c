"""The one clock that every process of the host shares."""

from __future__ import annotations

import time


def now_ns() -> int:
    """Nanoseconds on the one clock that every process of the host shares."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
