"""A request made by a person: load, run, print one JSON object, end.

    echo '{"prompt":"Hello","iterations":50,"model_path":"models/tiny-llama"}' | python bench.py

It runs through the same engine calls and the same clock as the harness's requests, one at a time,
and answers with the fields that the Rust engines answer with. It deliberately verifies nothing
and keeps nothing except a log of errors if the user wants one: its numbers are for a quick look,
not for publishing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import error_log
from batch import Timeline, time_batch
from clock import now_ns
from engine import Engine, EngineError, Load, failure_of
from process import set_threads, settle_garbage
from streams import Stream
from wire import BadRequest, text, token_ids, whole

# Number of samples that must lie beyond a percentile for it to be printed: with fewer, it would
# only report one or two outliers.
BEYOND_MIN = 10
# The precisions that a file name may contain; bf16 comes before f16, which is a part of it.
PRECISIONS = ("q4_k_m", "q8_0", "bf16", "f16", "f32")
KNOWN = {
    "prompt",
    "prompt_ids",
    "model_path",
    "iterations",
    "warmup",
    "new_tokens",
    "max_tokens",
    "weights",
    "precision",
    "variant",
    "backend",
    "device",
    "threads",
}


def answer(engine_type: type[Engine], ask: dict[str, Any], stream: Stream) -> int:
    """Answer a request without `op`; the exit status."""
    try:
        result, status = measure(engine_type, ask), 0
    except Exception as error:
        if isinstance(error, BadRequest):
            kind, message = "bad_request", str(error)
        else:
            kind, message = failure_of(engine_type, error)
        error_log.append(message)
        result, status = {"error": {"kind": kind, "message": message}}, 1
    stream.write(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return status


def measure(engine_type: type[Engine], ask: dict[str, Any]) -> dict[str, Any]:
    """Run what a person asked for; return the object to print."""
    iterations = whole(ask, "iterations", 1, 10)
    warmup = whole(ask, "warmup", 0, 2)
    new_tokens = whole(ask, "new_tokens", 1, whole(ask, "max_tokens", 1, 64))
    model_dir, weights, precision = locate(ask)
    prompt_ids = prompt_of(ask, model_dir)
    backend, device = device_of(ask)
    load = Load(
        model_dir=str(model_dir),
        weights=weights,
        precision=precision,
        backend=backend,
        variant=text(ask, "variant", ""),
        device=device,
        threads=whole(ask, "threads", 1, processors()),
        max_context=len(prompt_ids) + new_tokens,
        max_batch=1,
    )

    set_threads(load.threads)
    hello = engine_type.hello(load)
    start_ns = now_ns()
    engine, loaded = engine_type.load(load)
    load_ns = now_ns() - start_ns
    settle_garbage()
    if max(prompt_ids) >= engine.vocabulary:
        raise BadRequest(f"id {max(prompt_ids)} is outside the vocabulary of {engine.vocabulary}")
    runs = [time_batch(engine, [prompt_ids], new_tokens, [0]) for _ in range(warmup + iterations)]
    samples = Samples.of(runs[warmup:])

    return {
        "engine": hello.engine,
        "version": hello.version,
        "model_path": ask["model_path"],
        "weights": load.weights,
        "precision": load.precision,
        "variant": load.variant,
        "backend": load.backend,
        "device": load.device,
        "threads": load.threads,
        "prompt_tokens": len(prompt_ids),
        "new_tokens": new_tokens,
        "warmup": warmup,
        "iterations": iterations,
        "load_ms": load_ns / 1e6,
        "weight_bytes": loaded.weight_bytes,
        "kv_bytes_per_token": loaded.kv_bytes_per_token,
        "ttft_ms": summary(samples.ttft_ns),
        "itl_ms": summary(samples.itl_ns),
        "e2e_ms": summary(samples.e2e_ns),
        "output_tok_per_s": new_tokens * iterations / (sum(samples.e2e_ns) / 1e9),
        "output_text": decoded(model_dir, samples.output_ids),
        "output_ids": samples.output_ids,
        "notes": hello.capabilities.get("notes", []),
        "ignored_fields": sorted(ask.keys() - KNOWN),
        "build": hello.build | loaded.runtime,
    }


class Samples(NamedTuple):
    """Durations of all runs, and the output of the last."""

    ttft_ns: list[int]
    itl_ns: list[int]
    e2e_ns: list[int]
    output_ids: list[int]

    @classmethod
    def of(cls, runs: list[Timeline]) -> Samples:
        """Durations count from each run's own start, because by hand no request waits in a
        queue."""
        return cls(
            ttft_ns=[run.token_ns[0] - run.started_ns for run in runs],
            itl_ns=[
                later - earlier
                for run in runs
                for earlier, later in zip(run.token_ns, run.token_ns[1:], strict=False)
            ],
            e2e_ns=[run.token_ns[-1] - run.started_ns for run in runs],
            output_ids=runs[-1].row(0),
        )


def summary(samples_ns: list[int]) -> dict[str, float | int | None] | None:
    """Summarise samples, in milliseconds; `None` if there are none."""
    if not samples_ns:
        return None
    ascending = sorted(ns / 1e6 for ns in samples_ns)
    n = len(ascending)
    mean = sum(ascending) / n
    squares = sum((sample - mean) ** 2 for sample in ascending)
    return {
        "n": n,
        "mean": mean,
        "median": (ascending[(n - 1) // 2] + ascending[n // 2]) / 2,
        "p90": percentile(ascending, 90),
        "p95": percentile(ascending, 95),
        "p99": percentile(ascending, 99),
        "min": ascending[0],
        "max": ascending[-1],
        "stddev": (squares / (n - 1)) ** 0.5 if n > 1 else None,
    }


def percentile(ascending: list[float], percent: int) -> float | None:
    """Nearest rank: the smallest sample that `percent` of the samples do not exceed. `None` if too
    few samples lie beyond it."""
    rank = -(-len(ascending) * percent // 100)
    return ascending[rank - 1] if len(ascending) - rank >= BEYOND_MIN else None


def locate(ask: dict[str, Any]) -> tuple[Path, str, str]:
    """Return model directory, weight file and precision. `model_path` names a directory or a file;
    the precision says which file of a directory, or the file's name says the precision."""
    path = Path(text(ask, "model_path"))
    asked = text(ask, "precision", "")
    if path.is_dir():
        folder, found = path, weights_in(path, asked)
    elif path.is_file():
        folder, found = path.parent, path.name
    else:
        raise BadRequest(f"model_path {path} does not exist")
    weights = text(ask, "weights", found)
    named = next((known for known in PRECISIONS if known in weights.lower()), "f32")
    return folder, weights, asked or named


def weights_in(folder: Path, precision: str) -> str:
    """The name of the GGUF file of a quantised precision, else that of the safetensors."""
    if precision.startswith("q"):
        return f"model-{precision}.gguf"
    index = "model.safetensors.index.json"
    return index if (folder / index).is_file() else "model.safetensors"


def device_of(ask: dict[str, Any]) -> tuple[str, int]:
    """Backend and index: `1`, `"cuda"` and `"cuda:1"` are all ways to name a device."""
    named, index = "cpu", 0
    if isinstance(device := ask.get("device", 0), str):
        named, _, digits = device.partition(":")
        if digits and not digits.isdecimal():
            raise BadRequest(f"no device index: {digits!r}")
        index = int(digits or 0)
    else:
        index = whole(ask, "device", 0, 0)
    return text(ask, "backend", named), index


def processors() -> int:
    """Number of CPUs that this process may run on; on macOS, which doesn't tell, of all CPUs."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prompt_of(ask: dict[str, Any], model_dir: Path) -> list[int]:
    """Return the prompt as ids; it is given as text or as ids."""
    if ("prompt" in ask) == ("prompt_ids" in ask):
        raise BadRequest("give either `prompt` (text) or `prompt_ids`")
    if "prompt_ids" in ask:
        ids = token_ids(ask["prompt_ids"], "prompt_ids")
    else:
        ids = tokenizer_of(model_dir).encode(text(ask, "prompt")).ids
    if not ids:
        raise BadRequest("the prompt is empty")
    return ids


def decoded(model_dir: Path, ids: list[int]) -> str | None:
    """Return the ids as text; `None` if there is no tokenizer for the model."""
    try:
        return tokenizer_of(model_dir).decode(ids, skip_special_tokens=False)
    except EngineError:
        return None


def tokenizer_of(model_dir: Path) -> Any:
    """The model's tokenizer."""
    path = model_dir / "tokenizer.json"
    if not path.is_file():
        raise EngineError("unavailable", f"{path} does not exist: give `prompt_ids` instead")
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EngineError("unavailable", f"{error}: give `prompt_ids` instead") from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise EngineError("unavailable", f"{path} is no tokenizer: {error}") from None
