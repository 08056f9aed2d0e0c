"""Decides which of the waiting requests run next. The module has this name because `queue` is the
standard library's. It never looks into an engine.
"""

from __future__ import annotations

import queue
from collections import deque
from typing import Any

from clock import now_ns
from wire import BadRequest, Generate, Reject, Score, parse_object, token_ids, whole

# Largest number of tokens in a forward pass that scores share, so that a pass takes no more memory
# for activations and attention than one long sequence. A beginning that several scores share counts
# once.
PASS_TOKENS_MAX = 2048
# Largest number of tokens in such a pass with every row's beginning counted, because each row has a
# copy of the beginning's keys and values.
COPIED_TOKENS_MAX = 16384

# Requests that are sent at once say so, and a batch waits for all of them. The clients of a closed
# loop are independent: after a batch of several rows, or while others wait, those just answered are
# given time to come back before the next batch is formed. This is the least, enough for a process
# that isn't kept from running to read its answer and reply.
GATHER_MIN_NS = 1_000_000


def gather_ns(took_ns: int) -> int:
    """How long a batch waits for the clients that were just answered, after a batch that took
    `took_ns`: 1/25 of that, since a client that is late loses another whole batch."""
    return max(GATHER_MIN_NS, took_ns // 25)


def fits(scores: list[Score]) -> bool:
    """Whether scores of one shape may share a forward pass."""
    prompts = {score.before() for score in scores}
    after_prompts = sum(len(score.ask) for score in scores)
    fed = sum(len(prompt) for prompt in prompts) + after_prompts
    # If a prompt alone is longer than a pass, other scores that begin with it may still join.
    joins_prompt = len(prompts) == 1 and after_prompts <= PASS_TOKENS_MAX // 8
    copied = sum(len(score.ids) for score in scores)
    return (
        scores[0].parallel
        and (fed <= PASS_TOKENS_MAX or joins_prompt)
        and copied <= COPIED_TOKENS_MAX
    )


class Queue:
    """Requests waiting for the engine. What runs next is the first in line with every other request
    of its shape: up to `max_batch` rows or, for scores that may share a pass (`parallel_score`), as
    many as `fits` allows. In such a pass the engine may compute a shared beginning once."""

    def __init__(
        self,
        inbox: queue.SimpleQueue[tuple[int, bytes] | None],
        max_batch: int,
        max_context: int,
        vocabulary: int,
        parallel_score: bool = False,
    ) -> None:
        self._inbox = inbox
        self._early: deque[tuple[int, bytes] | None] = deque()
        self._waiting: deque[Generate | Score | Reject] = deque()
        self._max_batch = max_batch
        self._max_context = max_context
        self._vocabulary = vocabulary
        self._parallel_score = parallel_score
        self._closed = False
        self._answered = 0  # rows of the batch that finished last; 0 after anything else
        self._handed_out_ns = now_ns()  # when the work that is running was handed out
        self._took_ns = 0  # how long the work that finished last took
        self._left_over = 0  # requests that waited when that batch finished
        self._arrived = 0  # requests to generate that came in since
        self._to_come = 0  # requests still to come of those that were sent at once

    def next(self) -> list[Generate] | list[Score] | Reject | None:
        """Wait for something to do; `None` when everything is answered and the input has ended.
        Must be called as soon as the last answer is written."""
        deadline_ns = now_ns() + gather_ns(self._took_ns)
        while self._early:
            self._admit(self._early.popleft())
        self._arrived = 0
        self._drain()
        while not self._waiting:
            if self._closed:
                return None
            self._admit(self._inbox.get())
        self._complete()
        self._gather(deadline_ns)
        self._handed_out_ns = now_ns()
        first = self._waiting.popleft()
        return first if isinstance(first, Reject) else self._join(first)

    def finished(self, rows: int) -> None:
        """Record that a batch of `rows` (0: other work) is finished. Must be called before it is
        answered, so that a request that came earlier is not taken for a reply; `next` parses it."""
        self._took_ns = now_ns() - self._handed_out_ns
        self._answered = rows
        while not self._inbox.empty():
            self._early.append(self._inbox.get())
        self._left_over = len(self._waiting) + len(self._early)

    def _complete(self) -> None:
        """Wait for the rest of the requests that were sent together, or for as many as fit in a
        batch."""
        while not self._closed and self._to_come and len(self._waiting) < self._max_batch:
            self._admit(self._inbox.get())

    def _gather(self, deadline_ns: int) -> None:
        # A single user never waits; two that got out of step are batched together again.
        if self._answered + self._left_over <= 1:
            return
        while (
            not self._closed
            and self._arrived < self._answered
            and isinstance(self._waiting[0], Generate)
            and self._joinable(self._waiting[0]) < self._max_batch
        ):
            left_ns = deadline_ns - now_ns()
            if left_ns <= 0:
                return
            try:
                self._admit(self._inbox.get(timeout=left_ns / 1e9))
            except queue.Empty:
                return

    def _joinable(self, first: Generate) -> int:
        return sum(
            isinstance(item, Generate) and item.shape() == first.shape() for item in self._waiting
        )

    def _join(self, first: Generate | Score) -> list[Generate] | list[Score]:
        batch, rest = [first], deque()
        for item in self._waiting:
            is_alike = type(item) is type(first) and item.shape() == first.shape()
            if is_alike and self._has_room(batch, item):
                batch.append(item)
            else:
                rest.append(item)
        self._waiting = rest
        return batch

    def _has_room(self, batch: list[Generate] | list[Score], item: Generate | Score) -> bool:
        if isinstance(item, Generate):
            return len(batch) < self._max_batch
        return fits([*batch, item])

    def _drain(self) -> None:
        while not self._inbox.empty():
            self._admit(self._inbox.get())

    def _admit(self, line: tuple[int, bytes] | None) -> None:
        if self._closed:
            return  # after `exit` nothing counts
        if line is None:
            self._closed = True
            return
        id: int | None = None
        try:
            message = parse_object(line[1])
            op = message.get("op")
            if op == "exit":
                self._closed = True
                return
            if op == "load":
                raise BadRequest("a model is loaded already; start another process")
            if op not in ("generate", "score"):
                raise BadRequest(f"not a request: unknown `op` {op!r}")
            id = whole(message, "id", 0)
            item = self._generate(message, line[0]) if op == "generate" else self._score(message)
            if op == "generate":
                self._arrived += 1
        except BadRequest as error:
            item = Reject(id, str(error))
        self._waiting.append(item)

    def _generate(self, message: dict[str, Any], received_ns: int) -> Generate:
        together = whole(message, "together", 1, 1)
        self._to_come = self._to_come - 1 if self._to_come else together - 1
        prompt_ids = token_ids(message.get("prompt_ids"), "prompt_ids")
        new_tokens = whole(message, "new_tokens", 1)
        if not prompt_ids:
            raise BadRequest("the prompt is empty")
        self._check_length(len(prompt_ids) + new_tokens)
        self._check_vocabulary(prompt_ids)
        return Generate(message["id"], prompt_ids, new_tokens, received_ns, together)

    def _score(self, message: dict[str, Any]) -> Score:
        ids = token_ids(message.get("ids"), "ids")
        ask = message.get("ask")
        if not isinstance(ask, list):
            raise BadRequest("`ask` must be a list of lists of token ids")
        if not 1 <= len(ask) <= len(ids):
            raise BadRequest(f"{len(ask)} positions asked for, {len(ids)} ids given")
        self._check_length(len(ids))
        for asked in (ids, *(token_ids(asked, "ask") for asked in ask)):
            self._check_vocabulary(asked)
        top = min(whole(message, "top", 0, 0), self._vocabulary)
        parallel = self._parallel_score and message.get("parallel") is True
        return Score(message["id"], ids, ask, top, parallel)

    def _check_length(self, tokens: int) -> None:
        if tokens > self._max_context:
            raise BadRequest(f"{tokens} tokens are more than the max_context {self._max_context}")

    def _check_vocabulary(self, ids: list[int]) -> None:
        # Checked here, because on a GPU an id out of range would end the whole process.
        if ids and max(ids) >= self._vocabulary:
            raise BadRequest(f"id {max(ids)} is outside the vocabulary of {self._vocabulary}")
