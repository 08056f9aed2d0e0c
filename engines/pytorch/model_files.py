"""Checks a model's files before torch is imported, so that a file that cannot be loaded is found
without waiting for the import. transformers checks whether the weights fit config.json.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

from engine import EngineError

# transformers' class for each `model_type` that this engine runs.
ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}

# The names `from_pretrained` looks for. Others would need a loader of our own, which would no
# longer be what a user of transformers runs.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


def unusable(path: Path, why: str) -> EngineError:
    """Return the error for a model's file that is missing or damaged."""
    return EngineError("unavailable", f"{path} {why}; fetch the model again (`cargo xtask fetch`)")


def check_model(model_dir: Path, weights: str) -> dict[str, Any]:
    """Check cheaply for what would fail later; return the model's configuration."""
    config = read_json(model_dir / "config.json")
    if config.get("model_type") not in ARCHITECTURES:
        raise EngineError(
            "unsupported",
            f"{model_dir / 'config.json'} says model_type {config.get('model_type')!r}, and this "
            f"engine knows only {', '.join(ARCHITECTURES)}",
        )
    if weights not in WEIGHTS:
        raise EngineError("unsupported", f"pytorch reads {' or '.join(WEIGHTS)}, not {weights}")
    for file in weight_files(model_dir / weights):
        check_safetensors(file)
    return config


def weight_files(path: Path) -> list[Path]:
    """Return the safetensors file itself, or the shards of the index beside it. A model in shards
    is asked for by the name that it would have in one piece, or by its index."""
    index = path.with_name(WEIGHTS[1])
    sharded = path == index or (index.is_file() and not path.is_file())
    return shards(index) if sharded else [path]


def shards(index: Path) -> list[Path]:
    """The files that an index names, each once, by name."""
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise unusable(index, "names no weight files")
    for name in files.values():
        # A path to another directory is no file of this model.
        if not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
            raise unusable(index, f"names {name!r}, which is no plain file name")
    return [index.parent / name for name in sorted(set(files.values()))]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise unusable(path, f"cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise unusable(path, f"is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise unusable(path, "holds no JSON object")
    return value


def check_safetensors(path: Path) -> tuple[dict[str, Any], int]:
    """Check that the file is as long as its header says; return the header's tensors, and the
    offset at which their values begin. Damaged values are found by the hash that `fetch` checks."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            header_bytes = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if header_bytes > size - 8:
                raise unusable(path, f"is cut off or no safetensors file ({size} bytes)")
            header = json.loads(file.read(header_bytes))
        tensors = {name: t for name, t in header.items() if name != "__metadata__"}
        ends = [tensor["data_offsets"][1] for tensor in tensors.values()]
    except OSError as error:
        raise unusable(path, f"cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise unusable(path, "is no safetensors file (its header makes no sense)") from None
    expected = 8 + header_bytes + max(ends, default=0)
    if size != expected:
        raise unusable(path, f"has {size} bytes where its header speaks of {expected}")
    return tensors, 8 + header_bytes
