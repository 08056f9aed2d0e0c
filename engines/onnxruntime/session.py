"""Runs one batch at a time through a session that keeps keys and values in this module's
buffers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine import Opinion, opinion_of_array
from model_config import Config


class Session:
    """`begin` starts a batch of rows of one length, `feed` advances it; both return the greedy next
    token of each row. Keys and values are updated in place, and logits are read where the session
    wrote them, without a copy."""

    def __init__(
        self, session: Any, ortvalue_of: Any, config: Config, max_batch: int, max_context: int
    ) -> None:
        self._session, self._ortvalue_of, self._config = session, ortvalue_of, config
        self._max_context = max_context
        # Sized for the largest batch; a smaller one uses the beginning of each buffer. Pages that
        # are never written take no memory.
        values = max_batch * config.kv_heads * max_context * config.head_dim
        self._caches = [
            (f"{part}.{layer}", np.zeros(values, dtype=np.float32))
            for layer in range(config.layers)
            for part in ("key", "value")
        ]
        # Rows × 1 × vocabulary, after the last position.
        self._logits = np.zeros((max_batch, 1, config.vocabulary), dtype=np.float32)
        self._bindings = {rows: self._bound(rows) for rows in range(1, max_batch + 1)}
        self._rows = 0
        self._position = 0

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self._rows = len(prompts)
        self._position = 0
        return self.feed(prompts)

    def feed(self, ids: list[list[int]]) -> list[int]:
        binding = self._bindings[self._rows]
        self._position += len(ids[0])
        last = np.full(self._rows, self._position - 1, dtype=np.int32)
        binding.bind_cpu_input("input_ids", np.array(ids, dtype=np.int64))
        binding.bind_cpu_input("last_index", last)
        binding.bind_cpu_input("length", np.array(self._position, dtype=np.int32))
        self._session.run_with_iobinding(binding)
        # `argmax` returns the first of equals, which has the lowest id.
        return self._logits[: self._rows, 0].argmax(axis=-1).tolist()

    def opinion(self, row: int, ask: list[int], top: int) -> Opinion:
        return opinion_of_array(self._logits[row, 0], ask, top)

    def _bound(self, rows: int) -> Any:
        """Bind the buffers for so many rows. The runtime reads and writes the arrays in place."""
        config = self._config
        binding = self._session.io_binding()
        shape = (rows, config.kv_heads, self._max_context, config.head_dim)
        for name, cache in self._caches:
            buffer = self._ortvalue_of(cache[: math.prod(shape)].reshape(shape))
            binding.bind_ortvalue_input(f"past_{name}", buffer)
            binding.bind_ortvalue_output(f"present_{name}", buffer)
        binding.bind_ortvalue_output("logits", self._ortvalue_of(self._logits[:rows]))
        return binding
