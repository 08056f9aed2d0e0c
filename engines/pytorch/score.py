"""Teacher-forced scoring, for the parity gate. Never timed."""

from __future__ import annotations

import math
from typing import Any

from engine import Engine, EngineError, Opinion
from wire import Score


def run_scores(engine: Engine, batch: list[Score]) -> list[dict[str, Any]]:
    """Teacher-forced scoring of requests of one shape; their `scored` events."""
    if not batch[0].parallel:
        return [scored(request, step_by_step(engine, request)) for request in batch]
    rows, asks = [request.ids for request in batch], [request.ask for request in batch]
    opinions = engine.score_parallel(rows, asks, batch[0].top)
    return [scored(request, of_row) for request, of_row in zip(batch, opinions, strict=True)]


def step_by_step(engine: Engine, request: Score) -> list[Opinion]:
    """Out of the same `prefill` and `decode` that are timed: a score that ran other code would
    verify other code."""
    opinions = []
    prefix = len(request.ids) - len(request.ask) + 1
    choice = engine.prefill([request.ids[:prefix]])
    for position, ask in enumerate(request.ask):
        if position > 0:
            choice = engine.decode([request.ids[prefix + position - 1]])
        opinion = engine.opinion(0, ask, request.top)
        if choice != [opinion.argmax]:
            raise EngineError(
                "internal",
                f"at position {position} the engine chose {choice}, but its logits say "
                f"{opinion.argmax}",
            )
        opinions.append(opinion)
    return opinions


def scored(request: Score, opinions: list[Opinion]) -> dict[str, Any]:
    """The `scored` event of a request."""
    for position, opinion in enumerate(opinions):
        if not all(map(math.isfinite, opinion.logprobs + opinion.top_logprobs)):
            raise EngineError("internal", f"logits {position} are not finite")
    return {
        "ev": "scored",
        "id": request.id,
        "argmax": [opinion.argmax for opinion in opinions],
        "logprobs": [opinion.logprobs for opinion in opinions],
        "top_ids": [opinion.top_ids for opinion in opinions] if request.top else [],
        "top_logprobs": [opinion.top_logprobs for opinion in opinions] if request.top else [],
    }
