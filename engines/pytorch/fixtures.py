"""What the tests of all engines in Python share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine import Load


def load_of(model_dir: Path | str, **more: Any) -> Load:
    """A `load` of q8_0 weights in a GGUF file; `more` replaces some fields."""
    fields = {
        "model_dir": str(model_dir),
        "weights": "model-q8_0.gguf",
        "precision": "q8_0",
        "backend": "cpu",
        "variant": "",
        "device": 0,
        "threads": 2,
        "max_context": 64,
        "max_batch": 2,
    }
    return Load(**(fields | more))
