"""The weights of a GGUF file, as the graph wants them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from engine import EngineError
from gguf import GGMLQuantizationType, GGUFReader
from model_files import unusable

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
        """Of the bytes of a file (outputs × bytes)."""
        blocks = rows.reshape(rows.shape[0], -1, SCALE_BYTES + BLOCK)
        scales = blocks[..., :SCALE_BYTES].copy().view(np.float16)[..., 0]
        # Two's complement plus 128 is the sign bit turned over.
        return cls(blocks[..., SCALE_BYTES:] ^ cls.ZERO, scales.astype(np.float32))

    @classmethod
    def joined(cls, matrices: list[Quantised]) -> Quantised:
        """One below the other."""
        if len(matrices) == 1:
            return matrices[0]
        return cls(
            np.concatenate([matrix.packed for matrix in matrices]),
            np.concatenate([matrix.scales for matrix in matrices]),
        )

    def values(self) -> Any:
        """In f32 (outputs × inputs)."""
        values = (self.packed.astype(np.float32) - self.ZERO) * self.scales[..., None]
        return values.reshape(values.shape[0], -1)


Weights = dict[str, Any]


def read(path: Path) -> Weights:
    """All tensors of a file: f32 as arrays, and q8_0."""
    try:
        tensors = GGUFReader(path).tensors
    except OSError as error:
        raise unusable(path, f"cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise unusable(path, f"is no whole GGUF file ({error})") from None
    found: Weights = {}
    for tensor in tensors:
        if tensor.tensor_type == GGMLQuantizationType.Q8_0:
            found[tensor.name] = Quantised.of(tensor.data)
        elif tensor.tensor_type == GGMLQuantizationType.F32:
            found[tensor.name] = tensor.data
        else:
            raise EngineError(
                "unsupported",
                f"{path} has {tensor.name} in {tensor.tensor_type.name}; this adapter reads f32 "
                "and q8_0",
            )
    return found
