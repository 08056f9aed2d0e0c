"""Computes how many bytes of weights a decode step reads, from the headers of the files."""

from __future__ import annotations

from math import prod
from pathlib import Path

import gguf
from engine import EngineError
from model_files import check_safetensors, read_json, weight_files

# Weights and bytes of a q8_0 block.
Q8_0 = (32, 34)


def decode_bytes(directory: Path, name: str, is_gguf: bool, quantised: bool) -> int:
    """Return that number for the file `name`; `quantised`: its linear layers become q8_0 while
    loading."""
    path = directory / name
    if is_gguf != (path.suffix == ".gguf"):
        wanted = "a GGUF file" if is_gguf else "safetensors"
        raise EngineError(
            "unsupported", f"{path} is not {wanted}, which this precision is read from"
        )
    if is_gguf:
        return gguf.weight_bytes(gguf.read_tensors(path))
    tied = read_json(directory / "config.json").get("tie_word_embeddings") is True
    unread = "lm_head.weight" if tied else "model.embed_tokens.weight"
    total = 0
    for file in weight_files(path):
        for tensor, shape in shapes(file).items():
            linear = tensor.endswith("_proj.weight") or tensor == "lm_head.weight"
            per, size = Q8_0 if quantised and linear else (1, 4)
            total += prod(shape) // per * size if tensor != unread else 0
    return total


def shapes(path: Path) -> dict[str, list[int]]:
    """Return the shapes of a safetensors file's tensors."""
    tensors, _ = check_safetensors(path)
    return {name: entry["shape"] for name, entry in tensors.items()}
