"""`pytorch`'s attention by itself, for the micro suites: `scaled_dot_product_attention` from
Python. This module is also the runtime of micro programs in Python (../gigatoken is another), the
twin of engines/protocol's: it reads requests, writes events, and reads the clock around calls.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from array import array
from pathlib import Path
from typing import Any

from build_facts import package_dir, torch_build, version_in
from clock import now_ns
from draw import uniform
from engine import EngineError
from loading import configure
from process import set_threads, settle_garbage
from streams import Lines, Stream

PROTOCOL = 1
CALLS_MAX = 1_000_000
# Inputs lie in ± this, as in engines/micro-inputs/src/sdpa.rs.
SCALE = 3.0


class Attention:
    """Attention in one precision on the processor."""

    @staticmethod
    def hello() -> dict[str, Any]:
        """What is measured, and how it was built."""
        torch_dir = package_dir("torch")
        return {
            "version": version_in(torch_dir, "version.py") or "absent",
            "build": torch_build(torch_dir),
            "notes": ["called from Python"],
        }

    def __init__(self, load: dict[str, Any]) -> None:
        precision = load["precision"]
        if load["variant"] != "sdpa" or load["backend"] != "cpu" or precision not in ("f32", "f16"):
            raise EngineError("unsupported", f"no variant {load['variant']!r} in {precision} here")
        set_threads(load["threads"])
        try:
            import torch
        except ImportError as error:
            raise EngineError("unavailable", f"torch can't be imported: {error}") from error
        configure(torch, load["threads"])
        torch.set_grad_enabled(False)
        self.torch = torch
        self.dtype = {"f32": torch.float32, "f16": torch.float16}[precision]
        self.seed: int = load["seed"]
        self.inputs: list[Any] = []
        self.causal = False
        self.result: Any = None
        settle_garbage()

    def prepare(self, params: dict[str, int]) -> float:
        """Draw the inputs; return the number of floating-point operations of a call."""
        dims = [params[name] for name in ("batch", "heads", "seq", "dim")]
        batch, heads, seq, dim = dims
        self.causal = params["causal"] != 0
        self.inputs = [
            self.torch.from_numpy(uniform(self.seed, name, math.prod(dims), SCALE))
            .reshape(dims)
            .to(self.dtype)
            for name in ("q", "k", "v")
        ]
        self.result = None
        pairs = seq * (seq + 1) // 2 if self.causal else seq * seq
        return 4.0 * batch * heads * pairs * dim

    def call(self) -> None:
        """Make one call."""
        q, k, v = self.inputs
        self.result = self.torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal
        )

    def output(self) -> bytes:
        """Every value of the last call, as little-endian f64."""
        values = self.result.to(self.torch.float64).contiguous().numpy()
        return values.astype("<f8").tobytes()


def timed(suite: Any, time: dict[str, int]) -> dict[str, Any]:
    """Warm up, then take the samples."""
    begin, done = now_ns(), 0
    while True:
        suite.call()
        done += 1
        took = now_ns() - begin
        if took >= time["warmup_ns"]:
            break
    calls = min(max(-(-time["sample_ns"] * done // max(took, 1)), 1), CALLS_MAX)
    ns = array("Q", [0]) * time["samples"]
    each = range(calls)
    start_ns = end_ns = now_ns()
    for sample in range(time["samples"]):
        from_ns = now_ns()
        for _ in each:
            suite.call()
        end_ns = now_ns()
        ns[sample] = end_ns - from_ns
    return {
        "ev": "timed",
        "calls": calls,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "ns": list(ns),
    }


def answer(suite: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request to a program that is loaded."""
    op = request.get("op")
    if op == "prepare":
        work = suite.prepare(request["params"])
        start_ns = now_ns()
        suite.call()
        return {"ev": "prepared", "work": work, "first_call_ns": now_ns() - start_ns}
    if op == "output":
        values = suite.output()
        with Path(request["path"]).open("xb") as file:
            file.write(values)
        return {"ev": "written", "values": len(values) // struct.calcsize("<d")}
    if op == "time":
        return timed(suite, request)
    raise EngineError("bad_request", f"no request {op!r}")


def main(suite_type: type) -> int:
    """Answer requests until they end; return the exit status. `suite_type` is called with the
    `load` request, and has the methods of `Attention`."""
    stream = Stream.claim_stdout()
    stream.exit_when_unheard()
    lines = Lines(0)
    suite: Any = None
    while (line := lines.next()) is not None:
        try:
            request = json.loads(line[1])
            op = request.get("op")
            if op == "exit":
                return 0
            if op == "load":
                suite = suite_type(request)
                event = {"ev": "hello", "protocol": PROTOCOL, **suite.hello()}
            elif suite is None:
                raise EngineError("bad_request", "nothing is loaded")
            else:
                event = answer(suite, request)
        except EngineError as error:
            event = {"ev": "error", "kind": error.kind, "message": str(error)}
        except Exception as error:  # the harness is told, whatever it is
            message = f"{type(error).__name__}: {error}".splitlines()[0]
            event = {"ev": "error", "kind": "internal", "message": message}
        stream.send(event)
    return 0


if __name__ == "__main__":
    sys.exit(main(Attention))
