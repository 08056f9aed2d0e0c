"""Reads the weights of a GGUF or safetensors file, by GGUF's names, as the graph needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine import EngineError
from gguf import GGMLQuantizationType, GGUFReader
from model_files import check_safetensors, unusable, weight_files

# Weights in a block of q8_0, which begins with its scale, an f16.
BLOCK = 32
SCALE_BYTES = 2


class Quantised:
    """A matrix in q8_0: `packed` (outputs × blocks × 32, u8, shifted by `ZERO` as MatMulNBits has
    it) and `scales` (outputs × blocks, f32)."""

    ZERO = 128

    def __init__(self, packed: Any, scales: Any) -> None:
        self.packed, self.scales = packed, scales

    @classmethod
    def of(cls, rows: Any) -> Quantised:
        """Unpack the bytes of a file (outputs × bytes)."""
        blocks = rows.reshape(rows.shape[0], -1, SCALE_BYTES + BLOCK)
        scales = blocks[..., :SCALE_BYTES].copy().view(np.float16)[..., 0]
        # Adding 128 to a signed byte flips its sign bit.
        return cls(blocks[..., SCALE_BYTES:] ^ cls.ZERO, scales.astype(np.float32))

    @classmethod
    def joined(cls, matrices: list[Quantised]) -> Quantised:
        """Stack matrices on top of one another."""
        if len(matrices) == 1:
            return matrices[0]
        return cls(
            np.concatenate([matrix.packed for matrix in matrices]),
            np.concatenate([matrix.scales for matrix in matrices]),
        )

    def values(self) -> Any:
        """Return the values in f32 (outputs × inputs)."""
        values = (self.packed.astype(np.float32) - self.ZERO) * self.scales[..., None]
        return values.reshape(values.shape[0], -1)


class Weights(NamedTuple):
    """Tensors by name: arrays in f32, or [`Quantised`]."""

    tensors: dict[str, Any]
    # Whether RoPE rotates neighbouring dimensions of a head as pairs, as in a Llama's GGUF file, or
    # dimensions that are half a head apart.
    neighbours: bool


# GGUF's names for a Llama's tensors, by Hugging Face's names.
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LAYER = "model.layers."


def read(path: Path) -> Weights:
    """Read all tensors of a file or, if it doesn't exist in one piece, of its shards."""
    if path.suffix == ".gguf":
        return Weights(read_gguf(path), neighbours=True)
    found: dict[str, Any] = {}
    for file in weight_files(path):
        found |= {gguf_name(name): tensor for name, tensor in read_safetensors(file).items()}
    return Weights(found, neighbours=False)


def read_gguf(path: Path) -> dict[str, Any]:
    """Read a GGUF file, whose tensors must be f32 or q8_0."""
    try:
        tensors = GGUFReader(path).tensors
    except OSError as error:
        raise unusable(path, f"cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise unusable(path, f"is no whole GGUF file ({error})") from None
    found: dict[str, Any] = {}
    for tensor in tensors:
        if tensor.tensor_type == GGMLQuantizationType.Q8_0:
            found[tensor.name] = Quantised.of(tensor.data)
        elif tensor.tensor_type == GGMLQuantizationType.F32:
            found[tensor.name] = tensor.data
        else:
            raise EngineError(
                "unsupported",
                f"{path} has {tensor.name} in {tensor.tensor_type.name}; of GGUF files this "
                "adapter reads f32 and q8_0",
            )
    return found


def read_safetensors(path: Path) -> dict[str, Any]:
    """Read a safetensors file; f32, f16 and bf16 all become f32."""
    tensors, start = check_safetensors(path)
    bytes = np.memmap(path, dtype=np.uint8, mode="r")
    found = {}
    for name, entry in tensors.items():
        begin, end = entry["data_offsets"]
        values = widened(bytes[start + begin : start + end], entry["dtype"], path, name)
        found[name] = values.reshape(entry["shape"])
    return found


def widened(bytes: Any, kind: str, path: Path, name: str) -> Any:
    """Convert values to f32; a bf16 is the upper half of an f32."""
    # The bytes are copied, since a tensor may begin at any offset.
    if kind == "F32":
        return np.frombuffer(bytes.tobytes(), dtype=np.float32)
    if kind == "F16":
        return np.frombuffer(bytes.tobytes(), dtype=np.float16).astype(np.float32)
    if kind == "BF16":
        halves = np.frombuffer(bytes.tobytes(), dtype=np.uint16).astype(np.uint32)
        return (halves << 16).view(np.float32)
    raise EngineError("unsupported", f"{path} has {name} in {kind}, which this adapter can't read")


def gguf_name(name: str) -> str:
    """`model.layers.0.mlp.up_proj.weight` → `blk.0.ffn_up.weight`; an unknown name stays."""
    stem, _, kind = name.rpartition(".")
    if not stem.startswith(LAYER):
        return f"{NAMES.get(stem, stem)}.{kind}"
    layer, _, part = stem.removeprefix(LAYER).partition(".")
    return f"blk.{layer}.{NAMES.get(part, part)}.{kind}"
