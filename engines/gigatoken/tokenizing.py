"""`gigatoken-micro`: GigaToken from Python in the suite `micro/tokenizer`, with the tokenizer.json
of the run's model. A call encodes every text of the case; the harness compares the ids with those
of `tokenizers`.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import Any

# The Python programs share the modules of ../pytorch; no module here has the name of one of them.
sys.path.append(str(Path(__file__).resolve().parent.parent / "pytorch"))

from build_facts import environment, version_of
from engine import EngineError, not_importable
from micro import main
from process import settle_garbage
from texts import texts

LOCK = Path(__file__).with_name("requirements.lock")
# `encode`, one text after the other, and `encode_batch` over threads.
RUNS = ("gigatoken", "gigatoken_parallel")


class Tokenizing:
    """One way to encode, with a tokenizer."""

    @staticmethod
    def hello() -> dict[str, Any]:
        """What is measured, and how it was built."""
        return {
            "version": f"gigatoken {version_of('gigatoken')}",
            "build": environment(LOCK),
            "notes": ["called from Python; ids are NumPy's arrays, of a batch an Awkward Array"],
        }

    def __init__(self, load: dict[str, Any]) -> None:
        if load["variant"] not in RUNS:
            raise EngineError("unsupported", f"no variant {load['variant']!r} here")
        # GigaToken starts its threads once, at the first call.
        os.environ["RAYON_NUM_THREADS"] = str(load["threads"])
        try:
            import gigatoken
        except (ImportError, OSError) as error:
            raise not_importable(error, LOCK) from None
        file = Path(load["model_dir"]) / "tokenizer.json"
        try:
            self._tokenizer = gigatoken.Tokenizer(file)
        except Exception as error:  # whatever it says of a file that it doesn't take
            why = " ".join(str(error).split())
            raise EngineError("unsupported", f"GigaToken can't load {file.name}: {why}") from None
        self._is_parallel = load["variant"] == "gigatoken_parallel"
        self._seed: int = load["seed"]
        self._texts: list[str] = []
        self._ids: Any = ()
        settle_garbage()

    def prepare(self, params: dict[str, int]) -> float:
        """Make the texts; return the number of bytes that a call encodes."""
        count, chars, mixed = (params[name] for name in ("texts", "chars", "mixed"))
        self._texts = texts(self._seed, count, chars, mixed != 0)
        self._ids = ()
        return float(sum(len(text.encode()) for text in self._texts))

    def call(self) -> None:
        """Make one call."""
        if self._is_parallel:
            self._ids = self._tokenizer.encode_batch(self._texts, parallel=True)
        else:
            self._ids = [self._tokenizer.encode(text) for text in self._texts]

    def output(self) -> bytes:
        """For each text, the number of its ids, followed by the ids, as little-endian f64."""
        values: list[int] = []
        for row in self._ids:
            ids = [int(id) for id in row]
            values += [len(ids), *ids]
        return struct.pack(f"<{len(values)}d", *values)


if __name__ == "__main__":
    sys.exit(main(Tokenizing))
