"""The interface that an engine implements. The runtime does everything else: it reads requests,
forms batches, reads the clock and answers. The contract is small on purpose: `score` and `generate`
are built from the same two calls, so the gate checks the very path that is timed.
"""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class EngineError(Exception):
    """A failure the engine can name: `kind` is one of the protocol's, `message` one line."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Load(NamedTuple):
    """What to load, and how; the fields of the protocol's `load`."""

    model_dir: str
    weights: str
    precision: str
    backend: str
    variant: str
    device: int
    threads: int
    max_context: int
    max_batch: int


class Hello(NamedTuple):
    """The engine's description of itself. `capabilities` has `batching`, `score`, `parallel_score`
    and `notes`."""

    engine: str
    version: str
    build: dict[str, str]
    capabilities: dict[str, Any]


class Loaded(NamedTuple):
    """The loaded model. `runtime` has facts that only the loaded library can state."""

    weight_bytes: int
    kv_bytes_per_token: int
    runtime: dict[str, str]


class Opinion(NamedTuple):
    """What the model predicts at one position; probabilities as natural logarithms."""

    argmax: int
    logprobs: list[float]
    top_ids: list[int]
    top_logprobs: list[float]


class Engine:
    """One value serves one process. `prefill` starts a new batch and forgets the last one;
    `decode` advances it. Both return only when the result is known on the host, because the
    runtime reads the clock right after them. All rows of a batch have one length."""

    vocabulary: int

    @classmethod
    def hello(cls, load: Load) -> Hello:
        """Describe the engine. Called before anything is loaded; must be quick."""
        raise NotImplementedError

    @classmethod
    def load(cls, load: Load) -> tuple[Engine, Loaded]:
        """Load the model. Must leave no initialisation to the first request, except what the
        engine's own users also pay for then."""
        raise NotImplementedError

    @classmethod
    def kind_of(cls, error: Exception) -> str:
        """Return the protocol's kind of an error that is not an `EngineError`."""
        return "internal"

    def prefill(self, prompts: list[list[int]]) -> list[int]:
        """Feed `rows × length` ids; return the greedy next token of each row."""
        raise NotImplementedError

    def decode(self, tokens: list[int]) -> list[int]:
        """Feed one token per row; return the greedy next token of each row."""
        raise NotImplementedError

    def generate(self, prompts: list[list[int]], new_tokens: int) -> Iterator[list[int]]:
        """Yield the greedy tokens of each row, one step at a time, each as soon as it is known on
        the host. An engine that decodes in a loop of its own overrides this, and needs no `prefill`
        and `decode`."""
        tokens = self.prefill(prompts)
        yield tokens
        for _ in range(1, new_tokens):
            tokens = self.decode(tokens)
            yield tokens

    def opinion(self, row: int, ask: list[int], top: int) -> Opinion:
        """Return the opinion on `row` after the last `prefill` or `decode`. Only the gate asks for
        it; it is never timed."""
        raise NotImplementedError

    def score(self, ids: list[int], asks: list[list[int]], top: int) -> list[Opinion]:
        """Return the opinions at the last positions of `ids`, as many as `asks`. They come from the
        same `prefill` and `decode` that are timed: if a score ran other code, the gate would verify
        other code."""
        opinions = []
        prefix = len(ids) - len(asks) + 1
        choice = self.prefill([ids[:prefix]])
        for position, ask in enumerate(asks):
            if position > 0:
                choice = self.decode([ids[prefix + position - 1]])
            opinion = self.opinion(0, ask, top)
            if choice != [opinion.argmax]:
                raise EngineError(
                    "internal",
                    f"at position {position} the engine chose {choice}, but its logits say "
                    f"{opinion.argmax}",
                )
            opinions.append(opinion)
        return opinions

    def score_parallel(
        self, rows: list[list[int]], asks: list[list[list[int]]], top: int
    ) -> list[list[Opinion]]:
        """Run one forward pass over `rows × length` ids; return each row's opinions at its last
        positions, as many as its `asks`, which is equal for all rows. Called only if the
        capabilities say `parallel_score`."""
        raise NotImplementedError


class SessionEngine(Engine):
    """An engine whose batch is in a session: its `begin` and `feed` take `rows × length` ids and
    return the greedy next token of each row, and it has an `opinion` as the engine has."""

    def __init__(self, session: Any, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self._session = session

    def prefill(self, prompts: list[list[int]]) -> list[int]:
        return self._session.begin(prompts)

    def decode(self, tokens: list[int]) -> list[int]:
        return self._session.feed([[token] for token in tokens])

    def opinion(self, row: int, ask: list[int], top: int) -> Opinion:
        return self._session.opinion(row, ask, top)


def opinion_of(logits: Sequence[float], ask: list[int], top: int) -> Opinion:
    """Return the opinion given by raw logits, for an engine without an array library."""
    highest = max(logits)
    log_sum = highest + math.log(math.fsum(math.exp(logit - highest) for logit in logits))
    # Sorting is stable, so the lowest id wins a tie.
    ranked = sorted(range(len(logits)), key=lambda id: -logits[id])[:top] if top else []
    return Opinion(
        argmax=logits.index(highest),
        logprobs=[logits[id] - log_sum for id in ask],
        top_ids=ranked,
        top_logprobs=[logits[id] - log_sum for id in ranked],
    )


def opinion_of_array(logits: Any, ask: list[int], top: int) -> Opinion:
    """Return the opinion given by a NumPy array of raw logits, normalised in f64: over a hundred
    thousand terms, f32 loses digits."""
    import numpy as np

    logits = logits.astype(np.float64)
    highest = logits.max()
    logprobs = logits - (highest + np.log(np.exp(logits - highest).sum()))
    # Stable, so the lowest id wins a tie.
    ranked = np.argsort(-logprobs, kind="stable")[:top]
    return Opinion(
        argmax=int(logits.argmax()),
        logprobs=logprobs[ask].tolist(),
        top_ids=ranked.tolist(),
        top_logprobs=logprobs[ranked].tolist(),
    )


def check_load(load: Load, engine: str, precisions: Collection[str]) -> None:
    """Check a `load` for an engine that has no variants and runs only on the processor."""
    if load.variant:
        raise EngineError("unsupported", f"{engine} has no variant {load.variant!r}")
    if load.backend != "cpu":
        raise EngineError("unsupported", f"{engine} has no backend {load.backend!r} here")
    if load.precision not in precisions:
        raise EngineError(
            "unsupported", f"{engine} runs {', '.join(precisions)}, not {load.precision}"
        )


def not_importable(error: Exception, lock: Path) -> EngineError:
    """Return the error for a failed import of what an environment made from `lock` has."""
    return EngineError(
        "unavailable",
        f"{sys.executable} cannot import what it needs ({error}): install {lock.name} "
        "(`cargo xtask build` does) and run its python",
    )


def failure_of(engine_type: type[Engine], error: Exception) -> tuple[str, str]:
    """Return kind and message of any error; print the stack trace of an unexpected one to
    stderr."""
    if isinstance(error, EngineError):
        return error.kind, error.message
    kind = "oom" if isinstance(error, MemoryError) else engine_type.kind_of(error)
    if kind == "internal":
        traceback.print_exception(error)
    return kind, f"{type(error).__name__}: {error}"
