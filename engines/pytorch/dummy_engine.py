"""An engine without a model, for the tests of the runtime: it counts.

The token after a sequence is the sum of its ids modulo 16, so that every test can work out what
must come back. The engine deliberately keeps what it was fed as its only state, sleeps for a
millisecond a step, and fails on request: prompts that begin with one of the ids below, or a
`variant` to fail loading.
"""

from __future__ import annotations

import os
import sys
import time

from engine import Engine, EngineError, Hello, Load, Loaded, Opinion, opinion_of
from protocol import main

RAISES, OOM, MEMORY_ERROR, SLOW, TOO_FEW = 11, 12, 13, 14, 15


class Dummy(Engine):
    """Counts, with a vocabulary of 16 ids."""

    vocabulary = 16

    def __init__(self) -> None:
        self._rows: list[list[int]] = []

    @classmethod
    def hello(cls, load: Load) -> Hello:
        batching = "none" if load.variant == "alone" else "static_equal_length"
        return Hello(
            engine="dummy",
            version="1",
            build={"omp": os.environ["OMP_NUM_THREADS"]},
            capabilities={
                "batching": batching,
                "score": True,
                "parallel_score": load.variant == "parallel",
                "notes": [],
            },
        )

    @classmethod
    def load(cls, load: Load) -> tuple[Dummy, Loaded]:
        # A library that prints, in Python and below it.
        print("print while loading")
        os.write(1, b"write while loading\n")
        if load.variant == "absent":
            raise EngineError("unavailable", "no\ndevice")
        if load.variant == "broken":
            raise ValueError("unforeseen")
        return cls(), Loaded(weight_bytes=1, kv_bytes_per_token=2, runtime={"word_bytes": "4"})

    @classmethod
    def kind_of(cls, error: Exception) -> str:
        return "oom" if isinstance(error, OverflowError) else "internal"

    def prefill(self, prompts: list[list[int]]) -> list[int]:
        first = prompts[0][0]
        if first == RAISES:
            raise ValueError("unforeseen")
        if first == OOM:
            raise OverflowError("device memory")
        if first == MEMORY_ERROR:
            raise MemoryError
        if first == SLOW:
            time.sleep(0.3)
        self._rows = [list(prompt) for prompt in prompts]
        return self._next()[1 if first == TOO_FEW else 0 :]

    def decode(self, tokens: list[int]) -> list[int]:
        time.sleep(0.001)
        for row, token in zip(self._rows, tokens, strict=True):
            row.append(token)
        return self._next()

    def opinion(self, row: int, ask: list[int], top: int) -> Opinion:
        return opinion_of(logits_after(self._rows[row]), ask, top)

    def score_parallel(
        self, rows: list[list[int]], asks: list[list[list[int]]], top: int
    ) -> list[list[Opinion]]:
        if rows[0][0] == OOM:
            raise OverflowError("device memory")
        print("rows in a pass:", len(rows))
        ends = range(len(rows[0]) - len(asks[0]) + 1, len(rows[0]) + 1)
        return [
            [
                opinion_of(logits_after(ids[:end]), ask, top)
                for end, ask in zip(ends, row_asks, strict=True)
            ]
            for ids, row_asks in zip(rows, asks, strict=True)
        ]

    def _next(self) -> list[int]:
        return [sum(row) % 16 for row in self._rows]


def logits_after(ids: list[int]) -> list[float]:
    """The logits are 3 for the sum of the ids, 1 for the two ids after it, and 0 for all others."""
    logits = [0.0] * 16
    for offset, logit in ((2, 1.0), (1, 1.0), (0, 3.0)):
        logits[(sum(ids) + offset) % 16] = logit
    return logits


if __name__ == "__main__":
    sys.exit(main(Dummy))
