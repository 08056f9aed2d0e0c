"""Requests of one shape, run as one batch to its end, every token stamped."""

from __future__ import annotations

from typing import Any, NamedTuple

from clock import now_ns
from engine import Engine, EngineError
from wire import Generate


class Timeline(NamedTuple):
    """What a batch did and when; rows share all times. `steps` is `new_tokens × rows`."""

    started_ns: int
    token_ns: list[int]
    steps: list[list[int]]

    def row(self, row: int) -> list[int]:
        """The output of one row."""
        return [step[row] for step in self.steps]


def time_batch(engine: Engine, prompts: list[list[int]], new_tokens: int) -> Timeline:
    """Prefill `prompts`, decode until every row has `new_tokens`. Between two stamps stands one
    call into the engine and the storing of its result."""
    token_ns = [0] * new_tokens
    steps: list[list[int]] = [[]] * new_tokens
    started_ns = now_ns()
    tokens = engine.prefill(prompts)
    token_ns[0] = now_ns()
    steps[0] = tokens
    for step in range(1, new_tokens):
        tokens = engine.decode(tokens)
        token_ns[step] = now_ns()
        steps[step] = tokens
    if any(len(step) != len(prompts) for step in steps):
        raise EngineError("internal", f"the engine did not give {len(prompts)} tokens a step")
    return Timeline(started_ns, token_ns, steps)


def run_batch(engine: Engine, batch: list[Generate]) -> list[dict[str, Any]]:
    """Run requests of one shape together; their `done` events."""
    timeline = time_batch(engine, [request.prompt_ids for request in batch], batch[0].new_tokens)
    return [
        {
            "ev": "done",
            "id": request.id,
            "received_ns": request.received_ns,
            "started_ns": timeline.started_ns,
            "token_ns": timeline.token_ns,
            "output_ids": timeline.row(row),
            "batch": len(batch),
        }
        for row, request in enumerate(batch)
    ]
