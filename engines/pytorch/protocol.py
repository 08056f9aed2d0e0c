"""The adapter runtime for an engine written in Python: requests in, events out.

The twin of engines/protocol (Rust), which defines the messages: reading, batching, the clock and
answering stand here once, so that an engine is only "load a model, feed tokens, give the next
ones" (engine.py). It needs the standard library alone, so that `hello` does not wait for a
framework to load. Here is the loop; each other subject is a module beside it.

What it deliberately does not do: know an engine or a weight format, retry, or compute statistics
of a run (by_hand.py answers a person).

Exit status: 0 after `exit` or the end of input, 1 if loading failed or if the input was invalid and
nothing was ever loaded, 2 if there are arguments, 130 after an interrupt.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from batch import run_batch
from clock import now_ns
from engine import Engine, Load, failure_of
from process import set_threads, settle_garbage
from score import run_scores
from streams import Lines, Stream
from waiting import Queue
from wire import PROTOCOL, BadRequest, Reject, Score, error_event, parse_load, parse_object, whole
from witness import VARIABLE, commit_from_env

USAGE = """\
An inference engine behind the benchmark's protocol: JSON in, JSON out, no arguments.
By hand:  echo '{"prompt":"Hello","iterations":50,"model_path":"models/tiny-llama"}' | \
python engines/pytorch/bench.py
Optional: prompt_ids warmup new_tokens weights precision backend device threads variant"""


def main(engine_type: type[Engine]) -> int:
    """Run an adapter: the whole body of its main. Returns the exit status."""
    # This comes first, so that nothing an engine prints can get into the stream.
    stream = Stream.claim_stdout()
    if len(sys.argv) > 1:
        print(USAGE, file=sys.stderr)
        return 2
    stream.exit_when_unheard()
    try:
        return serve(engine_type, Lines(0), stream)
    except BrokenPipeError:
        return 0  # the reader is gone, so the error can't be reported to it either
    except KeyboardInterrupt:
        return 130


def serve(engine_type: type[Engine], lines: Lines, stream: Stream) -> int:
    """Handle the messages up to the one that decides what this process is for; return the exit
    status."""
    status_at_end = 0
    while (line := lines.next()) is not None:
        id: int | None = None
        try:
            message = first_object(lines, line[1])
            op = message.get("op")
            if "op" not in message:
                # Imported here, because a harness need not wait for what only a person uses.
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
    """Return the first message. A person's object may span several lines: lines are read until the
    object is complete or names an `op`."""
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
    """Say hello, load, then answer until the input ends; return the exit status."""
    set_threads(load.threads)
    try:
        hello = engine_type.hello(load)
    except Exception as error:
        stream.send(error_event(None, *failure_of(engine_type, error)))
        return 1
    stream.send({"ev": "hello", "protocol": PROTOCOL, **hello._asdict()})

    try:
        commit = commit_from_env()
    except (OSError, ValueError) as error:
        why = f"the file that {VARIABLE} names can't be mapped ({error}): unset it"
        stream.send(error_event(None, "internal", why))
        return 1
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
    waiting = Queue(
        lines.into_inbox(),
        max_batch,
        load.max_context,
        engine.vocabulary,
        hello.capabilities.get("parallel_score", False),
    )
    while (work := waiting.next()) is not None:
        rows = 0
        try:
            if isinstance(work, Reject):
                events = [error_event(work.id, "bad_request", work.message)]
            elif isinstance(work[0], Score):
                events = run_scores(engine, work)
            else:
                events = run_batch(engine, work, commit)
                rows = len(events)
        except Exception as error:
            failure = failure_of(engine_type, error)
            ids = [request.id for request in work] if isinstance(work, list) else [work.id]
            events = [error_event(id, *failure) for id in ids]
        waiting.finished(rows)
        stream.send(*events)
    return 0
