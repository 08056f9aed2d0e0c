"""Requests of one shape, run as one batch to its end, every token stamped."""

from __future__ import annotations

from typing import Any, NamedTuple

from clock import now_ns
from engine import Engine, EngineError
from wire import Generate
from witness import Commit, commit_nothing


class Timeline(NamedTuple):
    """The times and output of a batch; all rows share the times. `steps` is `new_tokens × rows`."""

    started_ns: int
    token_ns: list[int]
    steps: list[list[int]]

    def row(self, row: int) -> list[int]:
        """The output of one row."""
        return [step[row] for step in self.steps]


def time_batch(
    engine: Engine,
    prompts: list[list[int]],
    new_tokens: int,
    requests: list[int],
    commit: Commit = commit_nothing,
) -> Timeline:
    """Generate until every row has `new_tokens`. Between two stamps the engine makes one step, and
    the step's result is stored and committed under the requests' ids."""
    token_ns = [0] * new_tokens
    steps: list[list[int]] = [[]] * new_tokens
    count = 0
    started_ns = now_ns()
    for count, tokens in enumerate(engine.generate(prompts, new_tokens), 1):
        token_ns[count - 1] = now_ns()
        commit(requests, count - 1, tokens)
        steps[count - 1] = tokens
    if count != new_tokens:
        raise EngineError("internal", f"the engine ended after {count} of {new_tokens} tokens")
    if any(len(step) != len(prompts) for step in steps):
        raise EngineError("internal", f"the engine did not give {len(prompts)} tokens a step")
    return Timeline(started_ns, token_ns, steps)


def run_batch(engine: Engine, batch: list[Generate], commit: Commit) -> list[dict[str, Any]]:
    """Run requests of one shape together; return their `done` events."""
    prompts = [request.prompt_ids for request in batch]
    ids = [request.id for request in batch]
    timeline = time_batch(engine, prompts, batch[0].new_tokens, ids, commit)
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
