"""A decode step as CUDA graphs: recorded at load, replayed at every token, so that the GPU does not
wait for Python to launch kernels one by one.

A graph has fixed shapes, so there is one for each of a few batch sizes and context lengths, and the
smallest that is large enough is replayed. This module knows nothing of the model but its step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Recorded context lengths: the shortest, then each four times as long as the one before, up to the
# longest. A step attends to all positions of its graph: finer steps would need more graphs, and
# coarser ones would waste bandwidth.
SHORTEST = 256
GROWTH = 4


def sizes(first: int, growth: int, last: int) -> list[int]:
    """Return `first`, then values that grow by the factor `growth`, then `last`."""
    found = []
    while first < last:
        found.append(first)
        first *= growth
    return [*found, last]


class Graphs:
    """`step(ids, position, limit)` returns tensors (logits, choices) for `rows × 1` ids at
    `position`, which is a tensor of one element and below `limit`."""

    def __init__(
        self,
        torch: Any,
        device: Any,
        step: Callable[[Any, Any, int], tuple[Any, Any]],
        max_rows: int,
        max_positions: int,
    ) -> None:
        self._torch = torch
        self._rows = sizes(1, 2, max_rows)
        self._limits = sizes(SHORTEST, GROWTH, max_positions)
        self._pool = torch.cuda.graph_pool_handle()
        with torch.inference_mode():
            self._position = torch.zeros(1, dtype=torch.long, device=device)
            # Record the largest first, so that the others fit into the memory that it took.
            self._recorded = {
                (rows, limit): self._record(step, device, rows, limit)
                for rows in reversed(self._rows)
                for limit in reversed(self._limits)
            }

    def replay(self, tokens: list[int], position: int) -> tuple[Any, Any]:
        """Return logits and choices, one row per token; the next step of this size overwrites
        them."""
        torch = self._torch
        rows = next(rows for rows in self._rows if rows >= len(tokens))
        limit = next(limit for limit in self._limits if limit > position)
        graph, ids, logits, chosen = self._recorded[rows, limit]
        with torch.inference_mode():
            # Rows beyond the batch compute something that nobody reads.
            ids[: len(tokens), 0].copy_(torch.tensor(tokens))
            self._position.fill_(position)
            graph.replay()
            return logits[: len(tokens)], chosen[: len(tokens)]

    def _record(self, step: Callable, device: Any, rows: int, limit: int) -> tuple:
        torch = self._torch
        ids = torch.zeros((rows, 1), dtype=torch.long, device=device)
        # Run the step once on another stream before recording it, because libraries allocate memory
        # at their first use.
        aside = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):
            step(ids, self._position, limit)
        torch.cuda.current_stream(device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            logits, chosen = step(ids, self._position, limit)
        return graph, ids, logits, chosen
