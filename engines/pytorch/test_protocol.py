"""Tests of the adapter runtime, from outside: a process, two pipes, an engine that only counts.

They need the standard library alone and a few seconds. What torch does is test_bench.py's.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from unittest.mock import patch

import by_hand
import dummy_engine
import score as scoring
import waiting
import witness
from clock import now_ns
from engine import EngineError, Opinion, opinion_of
from wire import Generate, Score

HERE = Path(__file__).parent
LOAD = {
    "op": "load",
    "model_dir": ".",
    "weights": "none",
    "precision": "f32",
    "backend": "cpu",
    "threads": 3,
    "max_context": 64,
    "max_batch": 3,
}


def generate(id: int, prompt_ids: list[int], new_tokens: int = 4) -> dict[str, Any]:
    return {"op": "generate", "id": id, "prompt_ids": prompt_ids, "new_tokens": new_tokens}


def score(id: int, ids: list[int], ask: list[list[int]], **more: Any) -> dict[str, Any]:
    return {"op": "score", "id": id, "ids": ids, "ask": ask, **more}


def greedy(prompt_ids: list[int], new_tokens: int) -> list[int]:
    ids = list(prompt_ids)
    for _ in range(new_tokens):
        ids.append(sum(ids) % 16)
    return ids[len(prompt_ids) :]


class Adapter:
    """The dummy engine's process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, HERE / "dummy_engine.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, *messages: dict[str, Any] | str) -> None:
        lines = [m if isinstance(m, str) else json.dumps(m) for m in messages]
        self.process.stdin.write("".join(line + "\n" for line in lines).encode())
        self.process.stdin.flush()

    def event(self) -> dict[str, Any]:
        return json.loads(self.process.stdout.readline())

    def close(self) -> int:
        """Close its input and wait; its exit status."""
        self.process.stdin.close()
        status = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.process.stderr.close()
        return status


def talk(*messages: dict[str, Any] | str) -> tuple[list[dict[str, Any]], int, str]:
    """All events, exit status and standard error of a conversation that was sent at once."""
    lines = [m if isinstance(m, str) else json.dumps(m) for m in messages]
    done = subprocess.run(
        [sys.executable, HERE / "dummy_engine.py"],
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr


class Conversation(unittest.TestCase):
    def test_a_whole_one(self) -> None:
        before_ns = now_ns()
        events, status, stderr = talk(LOAD, generate(7, [1, 2]), {"op": "exit"}, generate(8, [1]))
        hello, loaded, done = events
        self.assertEqual(status, 0)
        self.assertEqual((hello["ev"], hello["protocol"], hello["engine"]), ("hello", 1, "dummy"))
        self.assertEqual(hello["build"], {"omp": "3"}, "threads are set before the engine is asked")
        self.assertEqual((loaded["ev"], loaded["weight_bytes"]), ("loaded", 1))
        self.assertEqual(done["output_ids"], greedy([1, 2], 4))
        self.assertEqual((done["ev"], done["id"], done["batch"]), ("done", 7, 1))
        stamps = [before_ns, done["received_ns"], done["started_ns"], *done["token_ns"]]
        self.assertEqual(len(done["token_ns"]), 4)
        self.assertEqual(stamps, sorted(stamps))
        self.assertIn("print while loading", stderr)
        self.assertIn("write while loading", stderr)

    def test_tokens_are_committed_for_whoever_looks(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(witness.BYTES)
            with patch.dict(os.environ, {witness.VARIABLE: file.name}):
                events, status, _ = talk(LOAD, generate(7, [1, 2]), generate(9, [1, 3]))
            self.assertEqual(status, 0)
            memory = Path(file.name).read_bytes()
        self.assertEqual(int.from_bytes(memory[:8], sys.byteorder), 8)
        entries = witness.ENTRY.iter_unpack(memory[witness.HEADER_BYTES :])
        seen: dict[int, dict[int, int]] = {7: {}, 9: {}}
        for request, index, token in list(entries)[:8]:
            seen[request][index] = token
        for done in events[2:]:
            self.assertEqual(seen[done["id"]], dict(enumerate(done["output_ids"])))

    def test_a_file_that_cannot_be_mapped_is_an_error(self) -> None:
        with patch.dict(os.environ, {witness.VARIABLE: "/nowhere"}):
            events, status, _ = talk(LOAD)
        self.assertEqual((events[-1]["ev"], status), ("error", 1))
        self.assertIn(witness.VARIABLE, events[-1]["message"])

    def test_hello_comes_before_loading_and_end_of_input_finishes_what_is_in_flight(self) -> None:
        adapter = Adapter()
        adapter.send(LOAD)
        self.assertEqual(adapter.event()["ev"], "hello")
        self.assertEqual(adapter.event()["ev"], "loaded")
        adapter.send(generate(1, [1], 20), generate(2, [1, 1], 20))
        adapter.process.stdin.close()
        self.assertEqual([adapter.event()["id"], adapter.event()["id"]], [1, 2])
        self.assertEqual(adapter.close(), 0)

    def test_nothing_at_all(self) -> None:
        self.assertEqual(talk()[:2], ([], 0))

    def test_a_load_that_fails(self) -> None:
        for variant, kind, message in [
            ("absent", "unavailable", "no device"),
            ("broken", "internal", "ValueError: unforeseen"),
        ]:
            events, status, _ = talk(LOAD | {"variant": variant}, generate(1, [1]))
            self.assertEqual([event["ev"] for event in events], ["hello", "error"])
            self.assertEqual(
                events[1], {"ev": "error", "id": None, "kind": kind, "message": message}
            )
            self.assertEqual(status, 1)

    def test_before_load(self) -> None:
        events, status, _ = talk("garbage", '{"op":"lo', generate(3, [1]), '{"op":"load"}')
        self.assertEqual([event["id"] for event in events], [None, None, 3, None])
        self.assertEqual({event["kind"] for event in events}, {"bad_request"})
        self.assertEqual(status, 1)

    def test_it_ends_when_nobody_reads_its_answers(self) -> None:
        adapter = Adapter()
        adapter.send(LOAD)
        adapter.event()
        adapter.event()
        adapter.process.stdout.close()
        self.assertEqual(adapter.process.wait(timeout=60), 0)
        adapter.close()


class Requests(unittest.TestCase):
    def test_what_makes_no_sense_is_answered_and_the_rest_goes_on(self) -> None:
        bad = [
            generate(1, []),
            generate(2, [1], 0),
            generate(3, [1] * 60, 5),
            generate(4, [16]),
            generate(5, [-1]),
            generate(6, [True]),
            score(7, [1, 2], []),
            score(8, [1, 2], [[], [], []]),
            score(9, [1, 2], [[99]]),
            score(10, [1] * 65, [[1]]),
        ]
        events, status, _ = talk(
            LOAD, *bad, "{", "[]", '{"op":"?"}', LOAD, "", generate(99, [1] * 60, 4)
        )
        errors, last = events[2:-1], events[-1]
        ids = [*range(1, 11), None, None, None, None]
        self.assertEqual([error["id"] for error in errors], ids)
        self.assertEqual({error["kind"] for error in errors}, {"bad_request"})
        self.assertEqual((last["ev"], last["id"], status), ("done", 99, 0))

    def test_failures_by_kind_and_the_process_lives_on(self) -> None:
        kinds = {
            dummy_engine.RAISES: "internal",
            dummy_engine.OOM: "oom",
            dummy_engine.MEMORY_ERROR: "oom",
            dummy_engine.TOO_FEW: "internal",
        }
        requests = [generate(id, [id]) for id in kinds]
        events, status, stderr = talk(LOAD | {"max_batch": 1}, *requests, generate(1, [1]))
        self.assertEqual({event["id"]: event["kind"] for event in events[2:-1]}, kinds)
        self.assertEqual((events[-1]["ev"], status), ("done", 0))
        self.assertIn("Traceback", stderr)

    def test_equal_shapes_share_a_batch_and_others_keep_their_order(self) -> None:
        requests = [
            generate(1, [1, 2, 3], 2),
            generate(2, [1, 2], 2),
            generate(3, [4, 5, 6], 2),
            generate(4, [1, 2, 3], 3),
            generate(5, [7, 8, 9], 2),
            generate(6, [1, 1, 1], 2),
            generate(7, [3, 4], 2),
        ]
        # While the first is at work, all others are queued.
        first = generate(0, [dummy_engine.SLOW], 1)
        events = talk(LOAD, first, *requests)[0][1:]
        order = [(event["id"], event["batch"]) for event in events[2:]]
        self.assertEqual(order, [(1, 3), (3, 3), (5, 3), (2, 2), (7, 2), (4, 1), (6, 1)])
        prompts = {request["id"]: request["prompt_ids"] for request in requests}
        for event in events[2:]:
            expected = greedy(prompts[event["id"]], len(event["output_ids"]))
            self.assertEqual(event["output_ids"], expected)
        self.assertEqual(events[2]["token_ns"], events[4]["token_ns"])

    def test_an_engine_that_cannot_batch_gets_one_at_a_time(self) -> None:
        events, _, _ = talk(LOAD | {"variant": "alone"}, generate(1, [1]), generate(2, [1]))
        self.assertEqual([event["batch"] for event in events[2:]], [1, 1])

    def test_a_request_is_stamped_when_it_comes_and_not_when_the_batch_is_over(self) -> None:
        adapter = Adapter()
        adapter.send(LOAD)
        adapter.event()
        adapter.event()
        adapter.send(generate(1, [dummy_engine.SLOW], 1))
        time.sleep(0.03)
        adapter.send(generate(2, [1], 1))
        first, second = adapter.event(), adapter.event()
        self.assertLess(second["received_ns"], first["token_ns"][0])
        self.assertGreaterEqual(second["started_ns"], first["token_ns"][0])
        adapter.close()


class Scores(unittest.TestCase):
    def queue(self, *rows: list[int]) -> waiting.Queue:
        """A queue with a request for each of these, numbered from 1."""
        inbox = SimpleQueue()
        for id, ids in enumerate(rows, 1):
            inbox.put((id, json.dumps(score(id, ids, [[]], parallel=True)).encode()))
        return waiting.Queue(inbox, 1, 64, 16, parallel_score=True)

    def test_incremental_and_parallel_agree(self) -> None:
        ids, ask = [1, 2, 3, 4], [[3, 4], [6], []]
        answers = []
        for variant in ("", "parallel"):
            events, status, _ = talk(
                LOAD | {"variant": variant}, score(5, ids, ask, top=3, parallel=True)
            )
            self.assertEqual(status, 0)
            answers.append(events[2])
        self.assertEqual(answers[0], answers[1])
        scored = answers[0]
        # Sums after 2, 3 and 4 ids; the next two ids share the second place.
        self.assertEqual(scored["argmax"], [3, 6, 10])
        self.assertEqual(scored["top_ids"], [[3, 4, 5], [6, 7, 8], [10, 11, 12]])
        norm = math.log(math.exp(3) + 2 * math.exp(1) + 13)
        for found, expected in zip(scored["logprobs"][0], [3 - norm, 1 - norm], strict=True):
            self.assertAlmostEqual(found, expected, places=12)
        self.assertEqual([len(row) for row in scored["logprobs"]], [2, 1, 0])

    def test_those_of_one_shape_share_a_pass_and_say_what_they_say_alone(self) -> None:
        slow = generate(0, [dummy_engine.SLOW], 1)  # all that follows is queued meanwhile
        requests = [
            score(1, [1, 2, 3], [[3], [6]], top=1, parallel=True),
            score(2, [4, 5], [[9]], top=1, parallel=True),
            score(3, [4, 5, 6], [[9], [15]], top=1, parallel=True),
            score(4, [7, 8, 9], [[8]], top=1, parallel=True),
            score(5, [7, 8, 9], [[8], [9]], top=2, parallel=True),
            score(6, [2, 2, 2], [[4], [6]], top=1),
            score(7, [9, 9, 9], [[2], []], top=1, parallel=True),
        ]
        parallel = LOAD | {"variant": "parallel"}
        events, status, stderr = talk(parallel, slow, *requests)
        self.assertEqual([event["id"] for event in events[2:]], [0, 1, 3, 7, 2, 4, 5, 6])
        self.assertEqual(stderr.count("rows in a pass: 3"), 1)
        self.assertEqual((stderr.count("rows in a pass: 1"), status), (3, 0))
        for request in requests:
            alone = talk(parallel, request)[0][2]
            self.assertIn(alone, events)

    def test_a_pass_is_bounded(self) -> None:
        queue = self.queue(*([id] * 10 for id in range(1, 6)))
        with patch.object(waiting, "PASS_TOKENS_MAX", 25):
            self.assertEqual([request.id for request in queue.next()], [1, 2])
        with patch.object(waiting, "PASS_TOKENS_MAX", 5):
            self.assertEqual([request.id for request in queue.next()], [3], "one always runs")
        self.assertEqual([request.id for request in queue.next()], [4, 5])

    def test_what_rows_of_a_pass_begin_with_counts_once(self) -> None:
        queue = self.queue(*([id % 2] * 9 + [id] for id in range(1, 6)))
        with patch.object(waiting, "PASS_TOKENS_MAX", 12):
            self.assertEqual([request.id for request in queue.next()], [1, 3, 5])
            self.assertEqual([request.id for request in queue.next()], [2, 4])

    def test_what_a_pass_copies_is_bounded(self) -> None:
        queue = self.queue(*([1] * 9 + [id] for id in range(1, 6)))
        with (
            patch.object(waiting, "PASS_TOKENS_MAX", 12),
            patch.object(waiting, "COPIED_TOKENS_MAX", 20),
        ):
            self.assertEqual([request.id for request in queue.next()], [1, 2])

    def test_of_what_is_longer_than_a_pass_alike_rows_still_share_one(self) -> None:
        queue = self.queue(*([first] * 40 + [id] for id, first in enumerate((1, 1, 2, 1), 1)))
        with patch.object(waiting, "PASS_TOKENS_MAX", 32):
            self.assertEqual([request.id for request in queue.next()], [1, 2, 4])

    def test_a_pass_that_fails_answers_each_of_its_requests(self) -> None:
        slow = generate(0, [dummy_engine.SLOW], 1)
        first = [score(id, [dummy_engine.OOM, id], [[1]], parallel=True) for id in (1, 2)]
        last = score(3, [1, 2, 3], [[1]], parallel=True)
        events, status, _ = talk(LOAD | {"variant": "parallel"}, slow, *first, last)
        self.assertEqual([event.get("kind") for event in events[3:]], ["oom", "oom", None])
        self.assertEqual([event["id"] for event in events[3:]], [1, 2, 3])
        self.assertEqual(status, 0)

    def test_without_top(self) -> None:
        events, _, _ = talk(LOAD, score(5, [1, 2], [[0]]))
        self.assertEqual((events[2]["top_ids"], events[2]["top_logprobs"]), ([], []))

    def test_the_lowest_id_wins_a_tie(self) -> None:
        opinion = opinion_of([5.0, 7.0, 7.0], [], 2)
        self.assertEqual((opinion.argmax, opinion.top_ids), (1, [1, 2]))

    def test_what_is_not_finite_is_an_error(self) -> None:
        class Endless(dummy_engine.Dummy):
            def opinion(self, row: int, ask: list[int], top: int) -> Opinion:
                return Opinion(3, [-math.inf], [], [])

        request = Score(1, [1, 2], [[0]], 0, False)
        with self.assertRaises(EngineError):
            scoring.run_scores(Endless(), [request])

    def test_a_choice_that_contradicts_the_logits_is_an_error(self) -> None:
        class Contrary(dummy_engine.Dummy):
            def prefill(self, prompts: list[list[int]]) -> list[int]:
                super().prefill(prompts)
                return [0]

        request = Score(1, [1, 2], [[0]], 0, False)
        with self.assertRaises(EngineError):
            scoring.run_scores(Contrary(), [request])


class Gathering(unittest.TestCase):
    """Tests of the queue's wait, without a process: whether a reply arrives in time depends on
    thread scheduling, so these tests feed the queue by hand."""

    def queue(self, max_batch: int = 8) -> tuple[waiting.Queue, Any]:
        inbox = SimpleQueue()
        return waiting.Queue(inbox, max_batch, max_context=64, vocabulary=16), inbox

    def put(self, inbox: Any, id: int, together: int = 1) -> None:
        inbox.put((id, json.dumps(generate(id, [1]) | {"together": together}).encode()))

    def ids(self, batch: list[Generate]) -> list[int]:
        return [request.id for request in batch]

    def test_a_long_batch_is_waited_for_longer(self) -> None:
        waits = [waiting.gather_ns(ms * 10**6) / 10**6 for ms in (0, 25, 50, 3400)]
        self.assertEqual(waits, [1, 1, 2, 136])

    def test_the_wait_ends_when_as_many_came_as_were_answered(self) -> None:
        queue, inbox = self.queue()
        self.put(inbox, 9)  # came in during the batch
        queue.finished(2)
        self.put(inbox, 1)
        self.put(inbox, 2)
        with patch.object(waiting, "GATHER_MIN_NS", 60 * 10**9):
            self.assertEqual(self.ids(queue.next()), [9, 1, 2])

    def test_a_batch_waits_for_all_that_are_sent_at_once(self) -> None:
        queue, inbox = self.queue()
        self.put(inbox, 1, together=3)

        def late() -> None:  # the engine is idle and asks before the other two are there
            for id in (2, 3):
                time.sleep(2 * waiting.GATHER_MIN_NS / 1e9)
                self.put(inbox, id, together=3)

        thread = threading.Thread(target=late)
        thread.start()
        self.assertEqual(self.ids(queue.next()), [1, 2, 3])
        thread.join()

    def test_a_full_batch_waits_for_no_more_and_the_end_of_input_ends_the_wait(self) -> None:
        queue, inbox = self.queue(max_batch=2)
        for id in (1, 2, 3):
            self.put(inbox, id, together=4)
        self.assertEqual(self.ids(queue.next()), [1, 2])
        inbox.put(None)
        self.assertEqual(self.ids(queue.next()), [3])
        self.assertIsNone(queue.next())

    def test_two_users_out_of_step_find_together(self) -> None:
        queue, inbox = self.queue()
        self.put(inbox, 1)
        self.assertEqual(self.ids(queue.next()), [1])
        self.put(inbox, 2)  # while the first is running
        queue.finished(1)
        self.put(inbox, 3)  # the first's user again
        self.assertEqual(self.ids(queue.next()), [2, 3])

    def test_it_waits_a_millisecond_at_most(self) -> None:
        queue, inbox = self.queue()
        self.put(inbox, 9)
        queue.finished(2)
        start_ns = now_ns()
        self.assertEqual(self.ids(queue.next()), [9])
        self.assertGreaterEqual(now_ns() - start_ns, waiting.GATHER_MIN_NS)

    def test_after_a_single_row_it_never_waits(self) -> None:
        queue, inbox = self.queue()
        queue.finished(1)
        self.put(inbox, 1)
        start_ns = now_ns()
        with patch.object(waiting, "GATHER_MIN_NS", 60 * 10**9):
            self.assertEqual(self.ids(queue.next()), [1])
        self.assertLess(now_ns() - start_ns, 10**9)


class ByHand(unittest.TestCase):
    def ask(self, request: dict[str, Any] | str) -> tuple[dict[str, Any], int]:
        done = subprocess.run(
            [sys.executable, HERE / "dummy_engine.py"],
            input=request if isinstance(request, str) else json.dumps(request, indent=2),
            capture_output=True,
            text=True,
            timeout=60,
        )
        return json.loads(done.stdout), done.returncode

    def test_an_object_over_several_lines(self) -> None:
        with tempfile.TemporaryDirectory() as model:
            result, status = self.ask(
                {
                    "prompt_ids": [1, 2],
                    "model_path": model,
                    "iterations": 3,
                    "max_tokens": 5,
                    "x": 1,
                }
            )
        self.assertEqual(status, 0)
        self.assertEqual(result["output_ids"], greedy([1, 2], 5))
        self.assertEqual(result["output_text"], None, "no tokenizer there")
        self.assertEqual((result["engine"], result["version"]), ("dummy", "1"))
        self.assertEqual((result["ttft_ms"]["n"], result["itl_ms"]["n"]), (3, 12))
        self.assertGreater(result["itl_ms"]["min"], 1)
        self.assertGreater(result["output_tok_per_s"], 0)
        self.assertEqual(result["ignored_fields"], ["x"])

    def test_errors(self) -> None:
        with tempfile.TemporaryDirectory() as model:
            base = {"model_path": model, "prompt_ids": [1]}
            for request, kind in [
                ({}, "bad_request"),
                ({"model_path": "nowhere", "prompt_ids": [1]}, "bad_request"),
                (base | {"prompt": "and"}, "bad_request"),
                (base | {"prompt_ids": []}, "bad_request"),
                (base | {"prompt_ids": [16]}, "bad_request"),
                (base | {"iterations": 0}, "bad_request"),
                (base | {"device": "cpu:x"}, "bad_request"),
                ({"model_path": model, "prompt": "text"}, "unavailable"),
                (base | {"variant": "absent"}, "unavailable"),
                (base | {"prompt_ids": [dummy_engine.OOM]}, "oom"),
            ]:
                result, status = self.ask(request)
                self.assertEqual((result["error"]["kind"], status), (kind, 1), request)

    def test_statistics(self) -> None:
        few = by_hand.summary([3_000_000, 1_000_000, 2_000_000, 6_000_000])
        self.assertEqual((few["n"], few["mean"], few["median"]), (4, 3.0, 2.5))
        self.assertEqual((few["min"], few["max"], few["p90"]), (1.0, 6.0, None))
        self.assertAlmostEqual(few["stddev"], math.sqrt(14 / 3))
        self.assertIsNone(by_hand.summary([1])["stddev"])
        self.assertIsNone(by_hand.summary([]))
        hundred = by_hand.summary([ms * 1_000_000 for ms in range(1, 101)])
        self.assertEqual((hundred["p90"], hundred["p95"]), (90.0, None))
        self.assertIsNone(by_hand.summary([ms * 1_000_000 for ms in range(99)])["p90"])

    def test_weights(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            model = Path(name)
            file = model / "model-q8_0.gguf"
            file.touch()
            whole = "model.safetensors"
            for ask, weights, precision in [
                ({}, whole, "f32"),
                ({"precision": "bf16"}, whole, "bf16"),
                ({"precision": "q4_k_m"}, "model-q4_k_m.gguf", "q4_k_m"),
                ({"weights": "model-f16.gguf"}, "model-f16.gguf", "f16"),
                ({"weights": "m-BF16.gguf"}, "m-BF16.gguf", "bf16"),
                ({"weights": "m-f16.gguf", "precision": "bf16"}, "m-f16.gguf", "bf16"),
                ({"model_path": str(file)}, file.name, "q8_0"),
            ]:
                found = by_hand.locate({"model_path": name} | ask)
                self.assertEqual(found, (model, weights, precision), ask)
            index = model / f"{whole}.index.json"
            index.touch()
            self.assertEqual(by_hand.locate({"model_path": name})[1], index.name)

    def test_devices(self) -> None:
        for ask, device in [
            ({}, ("cpu", 0)),
            ({"device": 1, "backend": "cuda"}, ("cuda", 1)),
            ({"device": "cuda"}, ("cuda", 0)),
            ({"device": "cuda:2"}, ("cuda", 2)),
        ]:
            self.assertEqual(by_hand.device_of(ask), device)


if __name__ == "__main__":
    unittest.main()
