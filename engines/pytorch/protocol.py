"""The adapter runtime for an engine written in Python: requests in, events out.

The twin of engines/protocol (Rust), which defines the messages: reading, batching, the clock and
answering stand here once, so that an engine is only "load a model, feed tokens, give the next
ones". It needs the standard library alone, so that `hello` does not wait for a framework to load.

What it deliberately does not do: know an engine or a weight format, retry, or compute statistics
of a run (by_hand.py answers a person).

Exit status: 0 after `exit` or the end of input, 1 where nothing could be loaded.
"""

from __future__ import annotations

import gc
import json
import math
import os
import queue
import select
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

PROTOCOL = 1
# After a batch of several rows, its clients are given this long to come back before the next
# batch is formed: long enough for a process to read its answer and reply, short against a step.
GATHER_NS = 1_000_000
READ_BYTES = 1 << 20

USAGE = """\
An inference engine behind the benchmark's protocol: JSON in, JSON out, no arguments.
By hand:  echo '{"prompt":"Hello","iterations":50,"model_path":"models/tiny-llama"}' | \
python engines/pytorch/bench.py
Optional: prompt_ids warmup new_tokens weights precision backend device threads variant"""


def now_ns() -> int:
    """Nanoseconds on the one clock that every process of the host shares."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


# ---- What an engine implements -----------------------------------------------------------------


class EngineError(Exception):
    """A failure the engine can name: `kind` is one of the protocol's, `message` one line."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Load(NamedTuple):
    """What to load, and how; the fields of the protocol's `load`."""

    model_dir: str
    weights: str
    precision: str
    backend: str
    variant: str
    device: int
    threads: int
    max_context: int
    max_batch: int


class Hello(NamedTuple):
    """Who is speaking. `capabilities` has `batching`, `score`, `parallel_score`, `notes`."""

    engine: str
    version: str
    build: dict[str, str]
    capabilities: dict[str, Any]


class Loaded(NamedTuple):
    """The model in memory. `runtime` is what only the loaded library can say of itself."""

    weight_bytes: int
    kv_bytes_per_token: int
    runtime: dict[str, str]


class Opinion(NamedTuple):
    """What the model thinks comes next at one position; natural-log probabilities."""

    argmax: int
    logprobs: list[float]
    top_ids: list[int]
    top_logprobs: list[float]


class Engine:
    """One value serves one process. `prefill` starts a new batch and forgets the last one;
    `decode` advances it. Both return only when the result is known on the host, because the
    runtime reads the clock right after them. All rows of a batch have one length."""

    vocabulary: int

    @classmethod
    def hello(cls, load: Load) -> Hello:
        """Who this is. Called before anything is loaded; must be quick."""
        raise NotImplementedError

    @classmethod
    def load(cls, load: Load) -> tuple[Engine, Loaded]:
        """Load the model; must leave nothing lazy that the engine's own users don't also pay."""
        raise NotImplementedError

    @classmethod
    def kind_of(cls, error: Exception) -> str:
        """The protocol's kind of an error that is no `EngineError`."""
        return "internal"

    def prefill(self, prompts: list[list[int]]) -> list[int]:
        """Feed `rows × length` ids; the greedy next token of each row."""
        raise NotImplementedError

    def decode(self, tokens: list[int]) -> list[int]:
        """Feed one token per row; the greedy next token of each row."""
        raise NotImplementedError

    def opinion(self, row: int, ask: list[int], top: int) -> Opinion:
        """Of `row`, after the last `prefill` or `decode`. Only the gate asks; never timed."""
        raise NotImplementedError

    def score_parallel(self, ids: list[int], asks: list[list[int]], top: int) -> list[Opinion]:
        """One forward pass over `ids`: the opinions at the last `len(asks)` positions. Called
        only where the capabilities say `parallel_score`."""
        raise NotImplementedError


def opinion_of(logits: Sequence[float], ask: list[int], top: int) -> Opinion:
    """The opinion that raw logits hold, for an engine without an array library."""
    highest = max(logits)
    log_sum = highest + math.log(math.fsum(math.exp(logit - highest) for logit in logits))
    # Sorting is stable, so the lowest id wins a tie.
    ranked = sorted(range(len(logits)), key=lambda id: -logits[id])[:top] if top else []
    return Opinion(
        argmax=logits.index(highest),
        logprobs=[logits[id] - log_sum for id in ask],
        top_ids=ranked,
        top_logprobs=[logits[id] - log_sum for id in ranked],
    )


# ---- Requests ----------------------------------------------------------------------------------


class Generate(NamedTuple):
    """A request to generate, and when its line was read."""

    id: int
    prompt_ids: list[int]
    new_tokens: int
    received_ns: int

    def shape(self) -> tuple[int, int]:
        """Rows of a batch must agree in this."""
        return len(self.prompt_ids), self.new_tokens


class Score(NamedTuple):
    """A request to score."""

    id: int
    ids: list[int]
    ask: list[list[int]]
    top: int
    parallel: bool


class Reject(NamedTuple):
    """A line that asks for nothing that can be done."""

    id: int | None
    message: str


class BadRequest(Exception):  # noqa: N818  (it is the protocol's own name for it)
    """Why a message makes no sense."""


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


# ---- Input and output --------------------------------------------------------------------------


class Lines:
    """Lines of a file descriptor, each with the time of the read that completed it. Blank lines
    are skipped. Reads around Python's buffers, whose reads nobody could stamp."""

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


def error_event(id: int | None, kind: str, message: str) -> dict[str, Any]:
    """The protocol's `error`; the message becomes one line."""
    return {"ev": "error", "id": id, "kind": kind, "message": " ".join(message.split())}


# ---- The queue ---------------------------------------------------------------------------------


class Queue:
    """Requests waiting for the engine, and what runs next: the first in line, with every other
    request of its shape, up to `max_batch` rows."""

    def __init__(
        self,
        inbox: queue.SimpleQueue[tuple[int, bytes] | None],
        max_batch: int,
        max_context: int,
        vocabulary: int,
    ) -> None:
        self._inbox = inbox
        self._early: deque[tuple[int, bytes] | None] = deque()
        self._waiting: deque[Generate | Score | Reject] = deque()
        self._max_batch = max_batch
        self._max_context = max_context
        self._vocabulary = vocabulary
        self._closed = False
        self._answered = 0  # rows of the batch that finished last; 0 after anything else
        self._arrived = 0  # requests to generate that came in since

    def next(self) -> list[Generate] | Score | Reject | None:
        """Wait for something to do; `None` when all is answered and no more will come. To be
        called as soon as the last answer is written."""
        deadline_ns = now_ns() + GATHER_NS
        while self._early:
            self._admit(self._early.popleft())
        self._arrived = 0
        self._drain()
        while not self._waiting:
            if self._closed:
                return None
            self._admit(self._inbox.get())
        self._gather(deadline_ns)
        first = self._waiting.popleft()
        return self._join(first) if isinstance(first, Generate) else first

    def finished(self, rows: int) -> None:
        """A batch of `rows` (0: something else) is finished. To be called before it is answered,
        so that what came in earlier is not taken for a reply; parsing it can wait until then."""
        self._answered = rows
        while not self._inbox.empty():
            self._early.append(self._inbox.get())

    def _gather(self, deadline_ns: int) -> None:
        # After a single row nobody else is expected: no request waits for company it won't get.
        if self._answered <= 1:
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

    def _join(self, first: Generate) -> list[Generate]:
        batch, rest = [first], deque()
        for item in self._waiting:
            joins = isinstance(item, Generate) and item.shape() == first.shape()
            if joins and len(batch) < self._max_batch:
                batch.append(item)
            else:
                rest.append(item)
        self._waiting = rest
        return batch

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
            self._arrived += op == "generate"
        except BadRequest as error:
            item = Reject(id, str(error))
        self._waiting.append(item)

    def _generate(self, message: dict[str, Any], received_ns: int) -> Generate:
        prompt_ids = token_ids(message.get("prompt_ids"), "prompt_ids")
        new_tokens = whole(message, "new_tokens", 1)
        if not prompt_ids:
            raise BadRequest("the prompt is empty")
        self._check_length(len(prompt_ids) + new_tokens)
        self._check_vocabulary(prompt_ids)
        return Generate(message["id"], prompt_ids, new_tokens, received_ns)

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
        return Score(message["id"], ids, ask, top, message.get("parallel") is True)

    def _check_length(self, tokens: int) -> None:
        if tokens > self._max_context:
            raise BadRequest(f"{tokens} tokens are more than the max_context {self._max_context}")

    def _check_vocabulary(self, ids: list[int]) -> None:
        # Here because on a GPU an id that is out of range would cost the whole process.
        if ids and max(ids) >= self._vocabulary:
            raise BadRequest(f"id {max(ids)} is outside the vocabulary of {self._vocabulary}")


# ---- Work --------------------------------------------------------------------------------------


class Timeline(NamedTuple):
    """What a batch did and when; rows share all times. `steps` is `new_tokens × rows`."""

    started_ns: int
    token_ns: list[int]
    steps: list[list[int]]

    def row(self, row: int) -> list[int]:
        """The output of one row."""
        return [step[row] for step in self.steps]


def time_batch(engine: Engine, prompts: list[list[int]], new_tokens: int) -> Timeline:
    """Prefill `prompts`, decode until every row has `new_tokens`. Between two stamps stands one
    call into the engine and the storing of its result."""
    token_ns = [0] * new_tokens
    steps: list[list[int]] = [[]] * new_tokens
    started_ns = now_ns()
    tokens = engine.prefill(prompts)
    token_ns[0] = now_ns()
    steps[0] = tokens
    for step in range(1, new_tokens):
        tokens = engine.decode(tokens)
        token_ns[step] = now_ns()
        steps[step] = tokens
    if any(len(step) != len(prompts) for step in steps):
        raise EngineError("internal", f"the engine did not give {len(prompts)} tokens a step")
    return Timeline(started_ns, token_ns, steps)


def run_batch(engine: Engine, batch: list[Generate]) -> list[dict[str, Any]]:
    """Run requests of one shape together; their `done` events."""
    timeline = time_batch(engine, [request.prompt_ids for request in batch], batch[0].new_tokens)
    return [
        {
            "ev": "done",
            "id": request.id,
            "received_ns": request.received_ns,
            "started_ns": timeline.started_ns,
            "token_ns": timeline.token_ns,
            "output_ids": timeline.row(row),
            "batch": len(batch),
        }
        for row, request in enumerate(batch)
    ]


def run_score(engine: Engine, request: Score, parallel: bool) -> dict[str, Any]:
    """Teacher-forced scoring; its `scored` event. Unless `parallel`, out of the same `prefill`
    and `decode` that are timed: a score that ran other code would verify other code."""
    if parallel:
        opinions = engine.score_parallel(request.ids, request.ask, request.top)
    else:
        opinions = []
        prefix = len(request.ids) - len(request.ask) + 1
        choice = engine.prefill([request.ids[:prefix]])
        for position, ask in enumerate(request.ask):
            if position > 0:
                choice = engine.decode([request.ids[prefix + position - 1]])
            opinion = engine.opinion(0, ask, request.top)
            if choice != [opinion.argmax]:
                raise EngineError(
                    "internal",
                    f"at position {position} the engine chose {choice}, but its logits say "
                    f"{opinion.argmax}",
                )
            opinions.append(opinion)
    for position, opinion in enumerate(opinions):
        if not all(map(math.isfinite, opinion.logprobs + opinion.top_logprobs)):
            raise EngineError("internal", f"logits {position} are not finite")
    return {
        "ev": "scored",
        "id": request.id,
        "argmax": [opinion.argmax for opinion in opinions],
        "logprobs": [opinion.logprobs for opinion in opinions],
        "top_ids": [opinion.top_ids for opinion in opinions] if request.top else [],
        "top_logprobs": [opinion.top_logprobs for opinion in opinions] if request.top else [],
    }


def failure_of(engine_type: type[Engine], error: Exception) -> tuple[str, str]:
    """Kind and message of whatever went wrong; the trace of the unforeseen goes to stderr."""
    if isinstance(error, EngineError):
        return error.kind, error.message
    kind = "oom" if isinstance(error, MemoryError) else engine_type.kind_of(error)
    if kind == "internal":
        traceback.print_exception(error)
    return kind, f"{type(error).__name__}: {error}"


# ---- The loop ----------------------------------------------------------------------------------


def main(engine_type: type[Engine]) -> int:
    """The whole of an adapter's main; the exit status."""
    # First of all, before an engine can print.
    stream = Stream.claim_stdout()
    if len(sys.argv) > 1:
        print(USAGE, file=sys.stderr)
        return 2
    stream.exit_when_unheard()
    try:
        return serve(engine_type, Lines(0), stream)
    except BrokenPipeError:
        return 0  # nobody listens any more, so there is nobody to complain to either
    except KeyboardInterrupt:
        return 130


def serve(engine_type: type[Engine], lines: Lines, stream: Stream) -> int:
    """Everything up to `load`, which decides what this process is for; the exit status."""
    status_at_end = 0
    while (line := lines.next()) is not None:
        id: int | None = None
        try:
            message = first_object(lines, line[1])
            op = message.get("op")
            if "op" not in message:
                # Not at the top: a harness need not wait for what only a person uses.
                import by_hand

                return by_hand.answer(engine_type, message, stream)
            if op == "load":
                return serve_loaded(engine_type, parse_load(message), lines, stream)
            if op == "exit":
                return 0
            if op in ("generate", "score"):
                id = whole(message, "id", 0)
                raise BadRequest("nothing is loaded")
            raise BadRequest(f"not a request: unknown `op` {op!r}")
        except BadRequest as error:
            stream.send(error_event(id, "bad_request", str(error)))
            status_at_end = 1
    return status_at_end


def first_object(lines: Lines, start: bytes) -> dict[str, Any]:
    """The first message. A person's object may go on over several lines: it is read on for as
    long as it is unfinished and names no `op`."""
    so_far = start
    while so_far.lstrip().startswith(b"{") and b'"op"' not in so_far:
        try:
            json.loads(so_far)
            break
        except ValueError:
            more = lines.next()
            if more is None:
                break
            so_far += b"\n" + more[1]
    return parse_object(so_far)


def serve_loaded(engine_type: type[Engine], load: Load, lines: Lines, stream: Stream) -> int:
    """Say hello, load, then answer until the input ends; the exit status."""
    set_threads(load.threads)
    hello = engine_type.hello(load)
    stream.send({"ev": "hello", "protocol": PROTOCOL, **hello._asdict()})

    start_ns = now_ns()
    try:
        engine, loaded = engine_type.load(load)
    except Exception as error:
        stream.send(error_event(None, *failure_of(engine_type, error)))
        return 1
    load_ns = now_ns() - start_ns
    settle_garbage()
    stream.send({"ev": "loaded", "load_ns": load_ns, **loaded._asdict()})

    max_batch = load.max_batch if hello.capabilities["batching"] != "none" else 1
    waiting = Queue(lines.into_inbox(), max_batch, load.max_context, engine.vocabulary)
    while (work := waiting.next()) is not None:
        rows = 0
        try:
            if isinstance(work, Reject):
                events = [error_event(work.id, "bad_request", work.message)]
            elif isinstance(work, Score):
                parallel = work.parallel and hello.capabilities.get("parallel_score", False)
                events = [run_score(engine, work, parallel)]
            else:
                events = run_batch(engine, work)
                rows = len(events)
        except Exception as error:
            failure = failure_of(engine_type, error)
            ids = [request.id for request in work] if isinstance(work, list) else [work.id]
            events = [error_event(id, *failure) for id in ids]
        waiting.finished(rows)
        stream.send(*events)
    return 0


def set_threads(threads: int) -> None:
    """Numerical libraries read these once, when they are first loaded."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)


def settle_garbage() -> None:
    """Exempt what exists by now from garbage collection.

    A framework leaves about a million objects that live as long as the process; going over them
    again and again is no part of inference, and Python servers in production exempt them too. The
    collector itself stays on: what serving allocates, it pays for within the timed region, as it
    does for every user. Turning it off would flatter Python. Nothing is collected first: that
    would take longer than what is left over is worth.
    """
    gc.freeze()
