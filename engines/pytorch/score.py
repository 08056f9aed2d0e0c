"""Teacher-forced scoring, for the parity gate. Never timed."""

from __future__ import annotations

import math
from typing import Any

from engine import Engine, EngineError
from wire import Score


def run_score(engine: Engine, request: Score, parallel: bool) -> dict[str, Any]:
    """Teacher-forced scoring; its `scored` event. Unless `parallel`, out of the same `prefill`
    and `decode` that are timed: a score that ran other code would verify other code."""
    if parallel:
        opinions = engine.score_parallel(request.ids, request.ask, request.top)
    else:
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
