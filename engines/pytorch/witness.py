"""Commits tokens as they are produced, so that the harness can observe them: the twin of
engines/protocol/src/witness.rs, which says why, and how the memory is laid out.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from struct import Struct

VARIABLE = "BENCH_WITNESS"
ENTRIES = 1 << 13
HEADER_BYTES = 64
# The request's id, the token's index, its id: two words in the machine's byte order, the index in
# the low half of the second.
ENTRY = Struct("<QII")
BYTES = HEADER_BYTES + ENTRIES * ENTRY.size

Commit = Callable[[list[int], int, list[int]], None]


def commit_nothing(requests: list[int], index: int, tokens: list[int]) -> None:
    """Do nothing, because there is no audit."""


def commit_from_env() -> Commit:
    """Return a function that commits token `index` of each of the requests to the file that the
    variable names; if it is unset, one that does nothing. Raises OSError or ValueError if the file
    cannot be mapped."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return commit_nothing
    with open(path, "r+b") as file:
        memory = mmap.mmap(file.fileno(), BYTES)
    # The count is stored as one 64-bit word, so that a reader always sees a whole number.
    committed = memoryview(memory)[:8].cast("Q")
    count = 0

    def commit(requests: list[int], index: int, tokens: list[int]) -> None:
        nonlocal count
        for request, token in zip(requests, tokens):
            at = HEADER_BYTES + count % ENTRIES * ENTRY.size
            ENTRY.pack_into(memory, at, request, index, token)
            count += 1
        committed[0] = count

    return commit
