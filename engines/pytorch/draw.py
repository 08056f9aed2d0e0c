"""Random numbers from a seed. Each depends only on its array's name and its index. The twin of
engines/micro-inputs/src/draw.rs."""

from __future__ import annotations

from typing import Any

GAMMA = 0x9E37_79B9_7F4A_7C15
MASK = (1 << 64) - 1


def key(seed: int, name: str) -> int:
    """The key of an array: its name's FNV-1a hash and the seed, mixed."""
    hashed = 0xCBF2_9CE4_8422_2325
    for byte in name.encode():
        hashed = (hashed ^ byte) * 0x100_0000_01B3 & MASK
    z = seed ^ hashed
    z = (z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB & MASK
    return z ^ (z >> 31)


def uniform(seed: int, name: str, count: int, scale: float) -> Any:
    """`count` numbers in ± `scale`, as a NumPy array of f32."""
    import numpy as np

    index = np.arange(1, count + 1, dtype=np.uint64)
    z = np.uint64(key(seed, name)) + np.uint64(GAMMA) * index
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    z = (z ^ (z >> np.uint64(31))) >> np.uint64(40)
    unit = z.astype(np.float32) / np.float32(8_388_608.0) - np.float32(1.0)
    return unit * np.float32(scale)
