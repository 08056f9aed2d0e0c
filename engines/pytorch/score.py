"""Teacher-forced scoring, for the parity gate. Never timed."""

from __future__ import annotations

import math
from typing import Any

from engine import Engine, EngineError, Opinion
from wire import Score


def run_scores(engine: Engine, batch: list[Score]) -> list[dict[str, Any]]:
    """Score requests of one shape by teacher forcing; return their `scored` events."""
    if not batch[0].parallel:
        return [scored(r, engine.score(r.ids, r.ask, r.top)) for r in batch]
    rows, asks = [request.ids for request in batch], [request.ask for request in batch]
    opinions = engine.score_parallel(rows, asks, batch[0].top)
    return [scored(request, of_row) for request, of_row in zip(batch, opinions, strict=True)]


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
