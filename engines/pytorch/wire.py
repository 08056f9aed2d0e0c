"""Parses the messages, and checks that they are valid. What depends on a model (its vocabulary, its
context) is checked where the model is known.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from engine import Load

PROTOCOL = 1


class Generate(NamedTuple):
    """A request to generate, and when its line was read."""

    id: int
    prompt_ids: list[int]
    new_tokens: int
    received_ns: int
    together: int  # how many are sent at once, this one included

    def shape(self) -> tuple[int, int]:
        """Return what all rows of a batch must have in common."""
        return len(self.prompt_ids), self.new_tokens


class Score(NamedTuple):
    """A request to score."""

    id: int
    ids: list[int]
    ask: list[list[int]]
    top: int
    parallel: bool

    def shape(self) -> tuple[int, int, int, bool]:
        """Return what all rows of a pass must have in common."""
        return len(self.ids), len(self.ask), self.top, self.parallel

    def before(self) -> tuple[int, ...]:
        """Return the ids before the positions that are asked about."""
        return tuple(self.ids[: len(self.ids) - len(self.ask)])


class Reject(NamedTuple):
    """A line that is not a valid request."""

    id: int | None
    message: str


class BadRequest(Exception):  # noqa: N818  (it is the protocol's own name for it)
    """The reason why a message is not valid."""


def whole(message: dict[str, Any], name: str, minimum: int, default: int | None = None) -> int:
    """A field that must be a whole number of at least `minimum`."""
    value = message.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise BadRequest(f"`{name}` must be a whole number of at least {minimum}, not {value!r}")
    return value


def text(message: dict[str, Any], name: str, default: str | None = None) -> str:
    """A field that must be a string."""
    value = message.get(name, default)
    if not isinstance(value, str):
        raise BadRequest(f"`{name}` must be a string, not {value!r}")
    return value


def token_ids(value: Any, name: str) -> list[int]:
    """A list of token ids; whether the model knows them is checked later."""
    if not isinstance(value, list) or not all(type(id) is int and id >= 0 for id in value):
        raise BadRequest(f"`{name}` must be a list of token ids")
    return value


def parse_load(message: dict[str, Any]) -> Load:
    """The protocol's `load`."""
    return Load(
        model_dir=text(message, "model_dir"),
        weights=text(message, "weights"),
        precision=text(message, "precision"),
        backend=text(message, "backend"),
        variant=text(message, "variant", ""),
        device=whole(message, "device", 0, 0),
        threads=max(1, whole(message, "threads", 0)),
        max_context=whole(message, "max_context", 1),
        max_batch=max(1, whole(message, "max_batch", 0)),
    )


def parse_object(line: bytes) -> dict[str, Any]:
    """One line as a JSON object."""
    try:
        message = json.loads(line)
    except ValueError as error:
        start = line.strip()[:80].decode("utf-8", "replace")
        raise BadRequest(f"not a request: {error}; the line begins with {start!r}") from None
    if not isinstance(message, dict):
        raise BadRequest(f"not a request: a JSON object was due, not {type(message).__name__}")
    return message


def error_event(id: int | None, kind: str, message: str) -> dict[str, Any]:
    """The protocol's `error`; the message becomes one line."""
    return {"ev": "error", "id": id, "kind": kind, "message": " ".join(message.split())}
