"""Reads lines, with the time at which they came, and writes events to what was standard output when
the process started. wire.py parses the lines.
"""

from __future__ import annotations

import json
import os
import queue
import select
import threading
from collections import deque
from typing import Any

from clock import now_ns

READ_BYTES = 1 << 20


class Lines:
    """Lines of a file descriptor, each with the time of the read that completed it. Blank lines are
    skipped. Python's buffers are bypassed, because their reads could not be stamped."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._ready: deque[tuple[int, bytes]] = deque()
        self._rest = b""
        self._ended = False

    def next(self) -> tuple[int, bytes] | None:
        """The next line, or `None` at the end of input."""
        while not self._ready and not self._ended:
            chunk = os.read(self._fd, READ_BYTES)
            # All lines that came in one read were received now.
            read_ns = now_ns()
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if not chunk:
                self._ended = True
                lines, self._rest = [self._rest], b""
            self._ready.extend((read_ns, line) for line in lines if line.strip())
        return self._ready.popleft() if self._ready else None

    def into_inbox(self) -> queue.SimpleQueue[tuple[int, bytes] | None]:
        """Read on in a thread; `None` ends the queue.

        The thread stamps and does nothing else: parsing there would hold the interpreter's lock
        against the running batch, so the main thread parses, between batches.
        """
        inbox: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()

        def read() -> None:
            while (line := self.next()) is not None:
                inbox.put(line)
            inbox.put(None)

        threading.Thread(target=read, name="reader", daemon=True).start()
        return inbox


class Stream:
    """Where events go: what was standard output when the process started."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def claim_stdout(cls) -> Stream:
        """Take descriptor 1 and give every other writer standard error instead, C and C++
        libraries included: a library's print cannot corrupt the stream."""
        fd = os.dup(1)  # not inherited by children, as Python makes it
        os.dup2(2, 1)
        return cls(fd)

    def send(self, *events: dict[str, Any]) -> None:
        """Write events, a line each, in one call: a batch's answers arrive together."""
        self.write("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))

    def write(self, lines: str) -> None:
        """Write whole lines."""
        rest = memoryview(lines.encode("utf-8", "replace"))
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def exit_when_unheard(self) -> None:
        """End the process as soon as nobody can read the stream any more, even within a batch of
        minutes: a harness that dies must not leave an engine behind that disturbs the next
        measurement. A pipe without readers reports an error to `poll`; a file never does."""

        def watch() -> None:
            poller = select.poll()
            poller.register(self._fd, 0)
            for _, happened in poller.poll():
                if happened & (select.POLLERR | select.POLLHUP):
                    os._exit(0)

        threading.Thread(target=watch, name="watch", daemon=True).start()
