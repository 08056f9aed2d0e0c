"""Reads what a GGUF file's header says about its weights. mistral.rs loads the weights.

The layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import BinaryIO, NamedTuple

from engine import EngineError
from model_files import unusable

# By type number: weights and bytes of a block. f16 and bf16 count as f32, in which they are held.
BLOCKS = {
    0: (1, 4),
    1: (1, 4),
    30: (1, 4),
    6: (32, 22),
    8: (32, 34),
    12: (256, 144),
    13: (256, 176),
}
BLOCKS[14] = (256, 210)
# By type number: the bytes of a metadata value.
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Tensor(NamedTuple):
    """A tensor's entry in the header."""

    shape: tuple[int, ...]
    type: int


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the file's tensors by name."""
    try:
        with path.open("rb") as file:
            return parse(file)
    except OSError as error:
        raise unusable(path, f"cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, struct.error, MemoryError, OverflowError):
        raise unusable(path, "is no GGUF file (its header makes no sense)") from None


def parse(file: BinaryIO) -> dict[str, Tensor]:
    """Parse the header of an open file."""
    magic, version, tensors, values = take(file, "<4sIQQ")
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError("another format")
    for _ in range(values):
        take_string(file)
        skip_value(file, take(file, "<I")[0])
    found = {}
    for _ in range(tensors):
        name = take_string(file).decode()
        dimensions = take(file, "<I")[0]
        shape = take(file, f"<{dimensions}Q")
        type, _offset = take(file, "<IQ")
        if type not in BLOCKS:
            raise EngineError("unsupported", f"{name} is of GGUF type {type}, unknown here")
        found[name] = Tensor(shape, type)
    return found


def weight_bytes(tensors: dict[str, Tensor]) -> int:
    """Bytes of weights that a decode step reads. Of an embedding that is not also the output head,
    it reads only single rows, which are not counted."""
    untied = "output.weight" in tensors
    return sum(
        prod(tensor.shape) * BLOCKS[tensor.type][1] // BLOCKS[tensor.type][0]
        for name, tensor in tensors.items()
        if not name.startswith("rope_") and not (untied and name == "token_embd.weight")
    )


def skip_value(file: BinaryIO, type: int) -> None:
    """Skip one metadata value."""
    if type == STRING:
        take_string(file)
    elif type == ARRAY:
        of, count = take(file, "<IQ")
        if of in SIZES:
            file.seek(SIZES[of] * count, 1)
        else:
            for _ in range(count):
                skip_value(file, of)
    else:
        file.seek(SIZES[type], 1)


def take_string(file: BinaryIO) -> bytes:
    """Read a string: its length, then as many bytes."""
    return take(file, f"{take(file, '<Q')[0]}s")[0]


def take(file: BinaryIO, format: str) -> tuple:
    """Read values of the layout that `format` names."""
    size = struct.calcsize(format)
    return struct.unpack(format, file.read(size))
