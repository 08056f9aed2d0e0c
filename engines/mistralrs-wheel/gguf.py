"""What a GGUF file's header says of its weights. The weights are mistral.rs' to load.

The layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import BinaryIO, NamedTuple

from engine import EngineError
from model_files import unusable

# By number: weights and bytes of a block. f16 and bf16 count as the f32 that they are held as.
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
# By number: how many bytes a value of metadata has.
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Tensor(NamedTuple):
    """One entry of the header."""

    shape: tuple[int, ...]
    type: int


def read_tensors(path: Path) -> dict[str, Tensor]:
    """What the file holds, by name."""
    try:
        with path.open("rb") as file:
            return parse(file)
    except OSError as error:
        raise unusable(path, f"cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, struct.error, MemoryError, OverflowError):
        raise unusable(path, "is no GGUF file (its header makes no sense)") from None


def parse(file: BinaryIO) -> dict[str, Tensor]:
    """The header of an open file."""
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
    """What a decode step reads: of an embedding that is not also the output head, single rows."""
    untied = "output.weight" in tensors
    return sum(
        prod(tensor.shape) * BLOCKS[tensor.type][1] // BLOCKS[tensor.type][0]
        for name, tensor in tensors.items()
        if not name.startswith("rope_") and not (untied and name == "token_embd.weight")
    )


def skip_value(file: BinaryIO, type: int) -> None:
    """One value of metadata."""
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
    """A length and as many bytes."""
    return take(file, f"{take(file, '<Q')[0]}s")[0]


def take(file: BinaryIO, format: str) -> tuple:
    """Values of the layout that `format` names."""
    size = struct.calcsize(format)
    return struct.unpack(format, file.read(size))
