"""Tests of the OpenVINO engine: what it refuses, the RoPE frequencies that it puts into a graph,
and the changes that it makes to one.

The first half needs only the standard library. The second makes a small graph by hand and is
skipped where OpenVINO is not installed. Whether a model's output is right is checked by the parity
gate, not here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import bench
import conversion
import frontend
import graph
import model_config
from engine import EngineError
from fixtures import load_of
from session import Session

CONFIG = {
    "model_type": "llama",
    "vocab_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rope_theta": 10000.0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


class Refusals(unittest.TestCase):
    def refused(self, kind: str, word: str, config: dict[str, Any] = CONFIG, **more: Any) -> None:
        with tempfile.TemporaryDirectory() as dir:
            (Path(dir) / "config.json").write_text(json.dumps(config))
            with self.assertRaises(EngineError) as caught:
                bench.OpenVino.load(load_of(dir, **more))
        self.assertEqual(caught.exception.kind, kind, caught.exception.message)
        self.assertIn(word, caught.exception.message)

    def test_what_the_adapter_does_not_run(self) -> None:
        self.refused("unsupported", "no variant", variant="opt")
        self.refused("unsupported", "no backend", backend="cuda")
        self.refused("unsupported", "not f32", precision="f32")
        self.refused("unsupported", "not bf16", variant="frontend", precision="bf16")

    def test_models_that_the_reader_would_compute_otherwise(self) -> None:
        for fields, word in [
            ({"model_type": "phi3"}, "'phi3'"),
            ({"attention_bias": True}, "biases"),
            ({"sliding_window": 32}, "32 positions"),
            ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn'"),
            ({"rope_scaling": {"type": "longrope"}}, "'longrope'"),
            ({"partial_rotary_factor": 0.5}, "a part"),
        ]:
            self.refused("unsupported", word, CONFIG | fields)

    def test_a_window_that_does_not_matter(self) -> None:
        for fields in (
            {"sliding_window": 64},
            {"sliding_window": None},
            {"sliding_window": 8, "use_sliding_window": False},
        ):
            self.assertIsNone(model_config.unfit(CONFIG | fields, 64, bench.ARCHITECTURES))

    def test_hello_names_the_versions_and_what_is_mended(self) -> None:
        hello = bench.OpenVino.hello(load_of("."))
        self.assertEqual(hello.build["openvino-genai"], hello.version)
        self.assertEqual(len(hello.build["lock_sha256"]), 64)
        self.assertIn("mended", " ".join(hello.capabilities["notes"]))

    def test_hello_says_which_reader_it_is_and_what_that_makes(self) -> None:
        for variant, batching, has in (
            ("", "static_equal_length", "GenAI's GGUF reader makes"),
            ("frontend", "none", "its GGUF frontend (a preview), makes"),
        ):
            told = bench.OpenVino.hello(load_of(".", variant=variant)).capabilities
            self.assertEqual(told["batching"], batching)
            self.assertIn(has, told["notes"][0])
            self.assertEqual("a new inference request" in " ".join(told["notes"]), not variant)


class Frequencies(unittest.TestCase):
    def test_without_scaling(self) -> None:
        config = model_config.parse(CONFIG, 64, bench.ARCHITECTURES)
        self.assertEqual(config.head_dim, 8)
        for found, wanted in zip(config.frequencies, (1.0, 0.1, 0.01, 0.001), strict=True):
            self.assertAlmostEqual(found, wanted)

    def test_llama_3(self) -> None:
        # Llama 3.2 1B's. By hand: the first wave is 6.3 positions long and stays; the last is
        # 2.6 million and is slowed down 32 times; that of pair 16 is 4 443, so 8192 / 4443 = 1.844
        # turns, and (1.844 - 1) / 3 = 0.2812 of it stays.
        fields = {"head_dim": 64, "rope_theta": 500000.0, "rope_scaling": LLAMA3}
        found = model_config.parse(CONFIG | fields, 64, bench.ARCHITECTURES).frequencies
        plain = [500000.0 ** (-i / 32) for i in range(32)]
        self.assertEqual(found[0], 1.0)
        self.assertAlmostEqual(found[31], plain[31] / 32)
        mixed = plain[16] * (0.2812 + (1 - 0.2812) / 32)
        self.assertAlmostEqual(found[16] / mixed, 1.0, places=3)

    def test_linear_and_the_newer_spelling(self) -> None:
        old = {"rope_scaling": {"type": "linear", "factor": 4.0}}
        new = {
            "rope_theta": None,
            "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
        }
        for fields in (old, new):
            found = model_config.parse(CONFIG | fields, 64, bench.ARCHITECTURES).frequencies
            self.assertAlmostEqual(found[1], 0.025)


class Conversion(unittest.TestCase):
    def setUp(self) -> None:
        dir = tempfile.TemporaryDirectory()
        self.addCleanup(dir.cleanup)
        self.dir = Path(dir.name)
        (self.dir / "model-q8_0.gguf").write_bytes(b"GGUF")

    def made(
        self, status: int = 0, stderr: str = "", files: tuple[str, ...] = (), reader: str = ""
    ) -> Path:
        """Return the result of a conversion that ends with this status and leaves these files."""

        def run(command: list[Any], **_: Any) -> subprocess.CompletedProcess:
            for name in files:
                (Path(command[-1]).parent / name).write_text(name)
            return subprocess.CompletedProcess(command, status, "", stderr)

        with patch.object(subprocess, "run", run):
            return conversion.converted(self.dir, "model-q8_0.gguf", reader)

    def test_it_is_made_once_and_again_for_other_weights(self) -> None:
        files = ("openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml")
        first = self.made(files=files)
        self.assertEqual({file.name for file in first.parent.iterdir()}, set(files[:2]))
        self.assertEqual(self.made(status=1), first)
        (self.dir / "model-q8_0.gguf").write_bytes(b"GGUF, longer")
        self.assertNotEqual(self.made(files=files), first)

    def test_one_that_fails_leaves_nothing(self) -> None:
        with self.assertRaises(EngineError) as caught:
            self.made(status=1, stderr="warning\nno room\n", files=("openvino_model.xml",))
        self.assertTrue(caught.exception.message.endswith("no room"), caught.exception.message)
        self.assertEqual([file.name for file in self.dir.iterdir()], ["model-q8_0.gguf"])

    def test_what_two_readers_make_is_kept_apart(self) -> None:
        files = ("openvino_model.xml", "openvino_model.bin")
        first, second = (self.made(files=files, reader=reader) for reader in ("", "frontend"))
        self.assertNotEqual(first, second)
        self.assertTrue(first.is_file() and second.is_file())

    def test_what_the_newer_reader_does_not_take_is_unsupported(self) -> None:
        for reader, kind in (("", "internal"), ("frontend", "unsupported")):
            with self.assertRaises(EngineError) as caught:
                self.made(status=1, stderr="no such operation\n", reader=reader)
            self.assertEqual(caught.exception.kind, kind)

    def test_what_is_no_gguf_file(self) -> None:
        for weights, kind in (("model.safetensors", "unsupported"), ("a.gguf", "unavailable")):
            with self.assertRaises(EngineError) as caught:
                conversion.converted(self.dir, weights, "")
            self.assertEqual(caught.exception.kind, kind)


@unittest.skipUnless(importlib.util.find_spec("openvino"), "OpenVINO is not installed")
class Graph(unittest.TestCase):
    def setUp(self) -> None:
        import numpy as np
        import openvino as ov

        self.np, self.ov = np, ov
        self.config = model_config.parse(CONFIG | {"rope_scaling": LLAMA3}, 64, bench.ARCHITECTURES)

    def model(self, tables: int = 1) -> Any:
        """Ids through a table of f16 weights, with tables of frequencies on the way."""
        np, op = self.np, self.ov.opset13
        ids = op.parameter([-1, -1], dtype=np.int64, name="input_ids")
        values = np.arange(16 * 4, dtype=np.float16).reshape(16, 4)
        weights = op.convert(op.constant(values), "f32")
        hidden = op.gather(weights, ids, op.constant(0))
        for _ in range(tables):
            table = op.constant(np.ones((1, 4, 1), dtype=np.float16))
            one = op.constant(np.array([1, 4, 1], dtype=np.int64))
            turned = op.broadcast(op.convert(table, "f32"), one)
            hidden = op.multiply(hidden, op.reshape(turned, op.constant([1, 1, 4]), False))
        logits = op.matmul(hidden, weights, False, True)
        return self.ov.Model([op.result(logits)], [ids], "small")

    def run_on(self, model: Any, ids: list[list[int]]) -> Any:
        compiled = self.ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return compiled(self.np.array(ids, dtype=self.np.int64))[0]

    def test_logits_of_the_last_position_alone(self) -> None:
        whole, trimmed = self.model(), self.model()
        graph.keep_last_position(self.ov, trimmed)
        ids = [[1, 2, 3], [4, 5, 6]]
        before, after = self.run_on(whole, ids), self.run_on(trimmed, ids)
        self.assertEqual(after.shape, (2, 1, 16))
        self.np.testing.assert_allclose(after[:, 0], before[:, -1])

    def test_the_models_own_frequencies(self) -> None:
        model = self.model()
        graph.set_frequencies(self.ov, model, self.config)
        row = self.np.arange(3 * 4, 4 * 4) * self.np.array(self.config.frequencies)
        wanted = row @ self.np.arange(16 * 4).reshape(16, 4).T
        self.np.testing.assert_allclose(self.run_on(model, [[3]])[0, 0], wanted, rtol=1e-5)

    def test_a_graph_that_is_not_as_expected(self) -> None:
        for tables in (0, 2):
            with self.assertRaises(EngineError) as caught:
                graph.set_frequencies(self.ov, self.model(tables), self.config)
            self.assertIn(f"{tables} tables", caught.exception.message)

    def test_the_newer_readers_graph_gets_tables_of_cosines_and_sines(self) -> None:
        np, op = self.np, self.ov.opset13

        def turned(*types: Any) -> Any:
            at = op.parameter([1, -1], dtype=np.int64, name="position_ids")
            at.output(0).set_names({"position_ids"})
            angle = op.reshape(op.convert(at, "f32"), op.constant([1, -1, 1, 1]), False)
            angle = op.multiply(angle, op.constant(np.ones((1, 1, 1, 4), dtype=np.float32)))
            found = op.concat([made(angle) for made in types], 3)
            return self.ov.Model([op.result(found)], [at], "small")

        model = turned(op.cos, op.sin)
        graph.set_angles(self.ov, model, self.config, 64)
        angles = 7 * np.array(self.config.frequencies)
        wanted = np.concatenate([np.cos(angles), np.sin(angles)])
        np.testing.assert_allclose(self.run_on(model, [[3, 7]])[0, 1, 0], wanted, rtol=1e-6)
        with self.assertRaises(EngineError) as caught:
            graph.set_angles(self.ov, turned(op.cos), self.config, 64)
        self.assertIn("0 operations Sin", caught.exception.message)

    def test_the_newer_readers_graph_gets_states_and_genais_inputs(self) -> None:
        np, op = self.np, self.ov.opset13
        lines = np.random.default_rng(1).random((16, 4), dtype=np.float32)

        def flat(value: Any) -> Any:
            return op.reshape(value, op.constant([-1]), False)

        def model(cache_name: str) -> Any:
            """Each position's logits are the mean of the rows of the ids that it sees, plus a
            multiple of its position."""
            names = ("inp_tokens", "inp_pos", "inp_out_ids", "inp_kv_idx")
            inputs = [op.parameter([1, 1, 1, -1], dtype=np.int32, name=name) for name in names]
            ids, at, out, where = inputs
            mask = op.parameter([1, 1, -1, -1], dtype=np.float32, name="self_kq_mask")
            cache = op.parameter([1, -1, 1, 4], dtype=np.float32, name=cache_name)
            shape = op.constant([1, -1, 1, 4])
            new = op.gather(op.constant(lines), flat(ids), op.constant(0))
            new = op.reshape(op.reshape(new, shape, False), shape, False)
            written = op.scatter_update(cache, flat(where), new, op.constant(1))
            values = op.transpose(written, op.constant([0, 2, 1, 3]))
            mean = op.matmul(op.softmax(mask, 3), values, False, False)
            at = op.reshape(op.convert(at, "f32"), op.constant([1, 1, -1, 1]), False)
            # The multiple differs between ids, because a softmax cancels what is equal for all.
            at = op.multiply(at, op.constant(np.arange(4, dtype=np.float32)))
            logits = op.gather(op.add(mean, at), flat(out), op.constant(2))
            results = [op.result(logits), op.result(written)]
            return self.ov.Model(results, [*inputs, mask, cache], "small")

        adapted = frontend.adapt(self.ov, model("cache_k_l0"))
        hint = {"INFERENCE_PRECISION_HINT": "f32"}
        session = Session(self.ov.Core().compile_model(adapted, "CPU", hint), 1, 8)
        for _ in range(2):  # the second prompt doesn't see the first
            session.begin([[1, 2, 3]])
            session.feed([[4]])
            logits = lines[1:5].mean(axis=0) + 3 * np.arange(4)
            wanted = logits - np.log(np.exp(logits).sum())
            found = session.opinion(0, [0, 1, 2, 3], 1).logprobs
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
        with self.assertRaisesRegex(RuntimeError, "writes 1 of its caches"):
            frontend.adapt(self.ov, model("other"))

    def test_a_table_that_is_the_output_matrix_too_is_read_once(self) -> None:
        self.assertEqual(graph.weight_bytes(self.model()), 16 * 4 * 2)


class Requests(unittest.TestCase):
    """Which requests a session makes, by a compiled model that only counts."""

    def test_a_new_one_where_the_number_of_rows_changes(self) -> None:
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("NumPy is not installed")
        import numpy as np

        made: list[Any] = []

        class Request:
            def __init__(self) -> None:
                self.resets = 0
                made.append(self)

            def reset_state(self) -> None:
                self.resets += 1

            def infer(self, inputs: dict[str, Any], **_: Any) -> list[Any]:
                rows, tokens = inputs["input_ids"].shape
                self.seen = {name: value.tolist() for name, value in inputs.items()}
                logits = np.zeros((rows, 1, 8), dtype=np.float32)
                logits[:, 0, tokens] = 1
                return [logits]

        class Compiled:
            create_infer_request = Request

        session = Session(Compiled(), 2, 8)
        self.assertEqual(session.begin([[1, 2, 3]]), [3])
        self.assertEqual(session.feed([[3]]), [1])
        self.assertEqual(made[0].seen["position_ids"], [[3]])
        self.assertEqual(made[0].seen["attention_mask"], [[1, 1, 1, 1]])
        session.begin([[1]])
        self.assertEqual((len(made), made[0].resets), (1, 1))
        session.begin([[1, 2], [3, 4]])
        self.assertEqual((len(made), made[1].resets), (2, 0))
        self.assertEqual(made[1].seen["position_ids"], [[0, 1], [0, 1]])
        self.assertEqual(made[1].seen["beam_idx"], [0, 1])
        opinion = session.opinion(1, [2, 0], 2)
        self.assertEqual((opinion.argmax, opinion.top_ids), (2, [2, 0]))
        self.assertAlmostEqual(
            sum(np.exp(opinion.top_logprobs)) + 6 * np.exp(opinion.logprobs[1]), 1
        )


class Instructions(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("openvino"), "OpenVINO is not installed")
    def test_openvinos_own_kernels_are_kept_to_onednns_level(self) -> None:
        with patch.dict(os.environ, {"ONEDNN_MAX_CPU_ISA": "AVX2"}):
            os.environ.pop("OV_CPU_MAX_ISA", None)
            bench.import_openvino()
            self.assertEqual(os.environ["OV_CPU_MAX_ISA"], "AVX2")


if __name__ == "__main__":
    unittest.main()
