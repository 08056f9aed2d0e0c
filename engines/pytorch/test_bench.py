"""Tests of the PyTorch engine: what it refuses, and that its ways to the same tokens agree.

The first half needs no torch. The second makes a tiny Llama with random weights and is skipped
where torch is not installed; it takes about ten seconds, most of them the import. Whether a model's
output is right is checked by the parity gate, on real weights, not here.

Where the processor only pretends to have AMX, torch dies of an illegal instruction. `cargo xtask
test` sets the variable that keeps it from that; by hand, `cargo xtask doctor` says what to set.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import struct
import sys
import tempfile
import unittest
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import bench
import fixtures
import graphs
import loading
import model_files
import plain
import products
from engine import Engine, EngineError, Load, Opinion

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}
VALUE_BYTES = 4
PROMPTS = [[(7 * row + 3 * i) % 256 for i in range(20)] for row in range(4)]


def load_of(model_dir: Path | str, **more: Any) -> Load:
    fields = {
        "weights": "model.safetensors",
        "precision": "f32",
        "max_context": 512,
        "max_batch": 4,
    }
    return fixtures.load_of(model_dir, **(fields | more))


def write_safetensors(path: Path, header: dict[str, Any], data: bytes) -> None:
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + data)


def generated(engine: Engine, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    steps = [engine.prefill(prompts)]
    while len(steps) < new_tokens:
        steps.append(engine.decode(steps[-1]))
    return [list(row) for row in zip(*steps, strict=True)]


class Refusals(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model_dir = Path(folder.name)
        self.weights = self.model_dir / "model.safetensors"

    def refused(self, kind: str, *named: str, **more: Any) -> None:
        with self.assertRaises(EngineError) as caught:
            bench.PyTorch.load(load_of(self.model_dir, **more))
        self.assertEqual(caught.exception.kind, kind)
        for name in named:
            self.assertIn(name, caught.exception.message)

    def test_what_it_cannot_do(self) -> None:
        self.refused("unsupported", "turbo", variant="turbo")
        self.refused("unsupported", "vulkan", backend="vulkan")
        self.refused("unsupported", "q8_0", precision="q8_0")
        self.refused("unsupported", "f16", precision="f16")

    def test_files_that_are_missing_or_spoilt_are_named(self) -> None:
        config = self.model_dir / "config.json"
        self.refused("unavailable", "config.json")
        config.write_text("{")
        self.refused("unavailable", "config.json", "no JSON")
        config.write_text('{"model_type":"gemma3_text"}')
        self.refused("unsupported", "gemma3_text", "llama, mistral, phi3, qwen3")
        config.write_text(json.dumps(CONFIG))
        self.refused("unsupported", "model-q8_0.gguf", weights="model-q8_0.gguf")
        self.refused("unavailable", "model.safetensors", "fetch")

        tensor = {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
        for content in (b"", b"1234567", b"\xff" * 100, struct.pack("<Q", 5) + b"nojson"):
            self.weights.write_bytes(content)
            self.refused("unavailable", "model.safetensors")
        write_safetensors(self.weights, tensor, b"1234567")
        self.refused("unavailable", "model.safetensors", "bytes where its header speaks of")
        write_safetensors(self.weights, tensor | {"__metadata__": {}}, b"12345678")
        model_files.check_safetensors(self.weights)

    def test_shards_are_checked_one_by_one(self) -> None:
        (self.model_dir / "config.json").write_text(json.dumps(CONFIG))
        index = self.model_dir / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"x": "a.safetensors"}}))
        self.refused("unavailable", "a.safetensors", weights=index.name)
        # By the name in one piece, too.
        self.refused("unavailable", "a.safetensors")
        for content in ("{}", '{"weight_map": {}}', '{"weight_map": {"x": "../a.safetensors"}}'):
            index.write_text(content)
            self.refused("unavailable", index.name, weights=index.name)
            self.refused("unavailable", index.name)

    def test_hello_needs_no_torch(self) -> None:
        hello = bench.PyTorch.hello(load_of(self.model_dir))
        self.assertEqual(hello.engine, "pytorch")
        self.assertEqual(len(hello.build["lock_sha256"]), 64)

    def test_hello_says_what_is_not_the_default_and_whose_f32_products_are(self) -> None:
        for variant, precision in product(bench.VARIANTS, ("f32", "bf16")):
            load = load_of(self.model_dir, variant=variant, precision=precision)
            notes = bench.PyTorch.hello(load).capabilities["notes"]
            self.assertEqual(plain.Plain.notes[0] in notes, variant == "")
            self.assertEqual(products.NOTE in notes, precision == "f32")

    def test_hello_says_where_its_environment_is_not_the_locks(self) -> None:
        for named, shell in ((sys.prefix, ""), ("/another", ""), (sys.prefix, "cpu")):
            with patch.dict(os.environ, BENCH_VENV=named, BENCH_NIX_SHELL=shell):
                build = bench.PyTorch.hello(load_of(self.model_dir)).build
            is_locks = (named, shell) != (sys.prefix, "")
            self.assertEqual("lock_sha256" in build, is_locks, (named, shell))
            self.assertEqual("environment" in build, not is_locks)


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        os.environ.update(loading.ENVIRONMENT)
        import torch
        from transformers.models.llama.modeling_llama import LlamaConfig, LlamaForCausalLM

        cls.torch = torch
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model_dir = Path(folder.name)
        torch.manual_seed(1)
        # Wide enough that the logits differ and greedy tokens are no matter of rounding.
        # A copy, because LlamaConfig writes into what it is given.
        config = LlamaConfig(**copy.deepcopy(CONFIG), initializer_range=0.3)
        LlamaForCausalLM(config).save_pretrained(cls.model_dir)
        # The file as ours are written, not as this version of transformers would.
        (cls.model_dir / "config.json").write_text(json.dumps(CONFIG))
        cls.engine, cls.loaded = bench.PyTorch.load(load_of(cls.model_dir))
        cls.opt, _ = bench.PyTorch.load(load_of(cls.model_dir, variant="opt"))

    def test_a_batch_says_what_its_rows_say_alone(self) -> None:
        for engine in (self.engine, self.opt):
            alone = [generated(engine, [prompt], 24)[0] for prompt in PROMPTS]
            self.assertEqual(generated(engine, PROMPTS, 24), alone)

    def test_parallel_and_incremental_scores_agree(self) -> None:
        ids = [(5 * i) % 256 for i in range(200)]
        asks = [[1, 2, ids[-1]]] * 50
        for engine in (self.engine, self.opt):
            (parallel,) = engine.score_parallel([ids], [asks], 4)
            engine.prefill([ids[:151]])
            for position, (opinion, ask) in enumerate(zip(parallel, asks, strict=True)):
                if position:
                    engine.decode([ids[150 + position]])
                self.agree(opinion, engine.opinion(0, ask, 4))

    def test_a_batch_of_scores_says_what_its_rows_say_alone(self) -> None:
        # More rows than opt's cache has, and more positions than are scored at one time.
        rows = [[(7 * row + 5 * i) % 256 for i in range(40)] for row in range(9)]
        # Three prompts, each with three outputs, and not in a row.
        alike = [rows[row % 3][:28] + rows[row][28:] for row in range(9)]
        asks = [[[row], [], [row, 3]] * 4 for row in range(9)]
        for engine, ids_of_rows in product((self.engine, self.opt), (rows, alike)):
            for top in (0, 1, 4):
                alone = [
                    engine.score_parallel([ids], [ask], top)[0]
                    for ids, ask in zip(ids_of_rows, asks, strict=True)
                ]
                with patch.object(plain, "LOGITS_AT_ONCE", 7 * 256):
                    together = engine.score_parallel(ids_of_rows, asks, top)
                self.assertEqual([len(of_row) for of_row in together], [12] * 9)
                for of_row, of_row_alone in zip(together, alone, strict=True):
                    for opinion, expected in zip(of_row, of_row_alone, strict=True):
                        self.agree(opinion, expected)
                        self.assertEqual(len(opinion.top_ids), top)

    def test_what_rows_begin_with_is_computed_once(self) -> None:
        fed = []

        def hidden_states(rows: list[list[int]], cache: Any) -> Any:
            fed.append((len(rows), len(rows[0])))
            return plain.Plain._hidden_states(self.engine, rows, cache)

        asks = [[[1]] * 3] * 4
        with patch.object(self.engine, "_hidden_states", hidden_states):
            self.engine.score_parallel([[1] * 9 + [id, 2, 2] for id in range(4)], asks, 0)
            self.engine.score_parallel([[id] * 9 + [1, 2, 2] for id in range(4)], asks, 0)
            self.engine.score_parallel([[id, 2, 2] for id in range(4)], asks, 0)
        self.assertEqual(fed, [(1, 9), (4, 3), (4, 12), (4, 3)])

    def test_products_by_onednn(self) -> None:
        torch = self.torch
        linear, onednn = torch.nn.functional.linear, torch.ops.mkldnn._linear_pointwise
        x, weight, bias = torch.randn(3, 40, 64), torch.randn(96, 64), torch.randn(96)
        with torch.inference_mode():
            for added in (None, bias):
                by_torch = linear(x, weight, added)
                with products.by_onednn(torch, weight):
                    product = linear(x, weight, added)
                self.assertTrue(product.equal(onednn(x, weight, added, "none", [], "")))
                self.assertLess(float((product - by_torch).abs().max()), 1e-4)
        self.assertIsInstance(products.by_onednn(torch, weight.bfloat16()), nullcontext)

    def agree(self, opinion: Opinion, expected: Opinion) -> None:
        self.assertEqual(opinion.argmax, expected.argmax)
        self.assertEqual(opinion.top_ids, expected.top_ids)
        self.assertEqual(opinion.top_ids[:1], [opinion.argmax][: len(opinion.top_ids)])
        for found, wanted in [
            (opinion.logprobs, expected.logprobs),
            (opinion.top_logprobs, expected.top_logprobs),
        ]:
            for a, b in zip(found, wanted, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-4)

    def test_the_lowest_id_wins_a_tie(self) -> None:
        logits = self.torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
        for top in (1, 3):
            opinions = self.engine._opinions(logits, [[0], []], top)
            self.assertEqual([opinion.argmax for opinion in opinions], [1, 0])
            self.assertEqual([o.top_ids for o in opinions], [[1, 2, 4][:top], [0, 1, 2][:top]])

    def test_opt_is_the_same_model(self) -> None:
        self.assertEqual(generated(self.opt, PROMPTS, 24), generated(self.engine, PROMPTS, 24))
        for engine in (self.engine, self.opt):
            engine.prefill([list(range(100))])
        opinions = [engine.opinion(0, [1, 2, 3], 3) for engine in (self.engine, self.opt)]
        for a, b in zip(*(opinion.logprobs for opinion in opinions), strict=True):
            self.assertAlmostEqual(a, b, delta=1e-4)

    def test_the_small_program_says_what_the_adapter_says(self) -> None:
        import small_program

        said = small_program.generate(str(self.model_dir), PROMPTS[0], 24)
        self.assertEqual([said], generated(self.engine, PROMPTS[:1], 24))

    def test_the_step_for_graphs_is_the_step(self) -> None:
        self.opt.prefill([PROMPTS[0], PROMPTS[1]])
        torch, position = self.torch, self.torch.tensor([len(PROMPTS[0])])
        # Both feed the same tokens at the same position, so either may come first.
        with torch.inference_mode():
            logits, chosen = self.opt.decode_fixed(torch.tensor([[5], [6]]), position, 256)
        self.assertEqual(self.opt.decode([5, 6]), chosen.tolist())
        self.assertLess(float((self.opt._logits - logits).abs().max()), 1e-4)

    def test_sizes_of_graphs(self) -> None:
        self.assertEqual(graphs.sizes(1, 2, 1), [1])
        self.assertEqual(graphs.sizes(1, 2, 6), [1, 2, 4, 6])
        self.assertEqual(graphs.sizes(256, 4, 1024), [256, 1024])
        self.assertEqual(graphs.sizes(256, 4, 64), [64])

    def test_logprobs_are_normalised(self) -> None:
        self.engine.prefill([[1, 2, 3]])
        opinion = self.engine.opinion(0, list(range(256)), 256)
        total = sum(self.torch.tensor(opinion.logprobs, dtype=self.torch.float64).exp())
        self.assertAlmostEqual(float(total), 1.0, places=12)
        self.assertEqual(sorted(opinion.logprobs, reverse=True), opinion.top_logprobs)

    def test_sizes(self) -> None:
        per_layer = 64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64
        expected = (256 * 64 + 3 * per_layer + 64) * VALUE_BYTES
        self.assertEqual(self.loaded.weight_bytes, expected)
        self.assertEqual(self.loaded.kv_bytes_per_token, 2 * 3 * 2 * 16 * VALUE_BYTES)

    def test_rope_scaling_is_read(self) -> None:
        found = self.engine._model.config.rope_parameters
        self.assertEqual(found["rope_type"], "llama3")
        with self.assertRaises(EngineError):
            loading.check_rope(self.engine._model.config, CONFIG | {"rope_scaling": None})
        with self.assertRaises(EngineError):
            loading.check_rope(self.engine._model.config, CONFIG | {"rope_theta": 1.0})

    def test_weights_that_do_not_fit_the_configuration(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "model.safetensors").hardlink_to(self.model_dir / "model.safetensors")
            for change in ({"num_hidden_layers": 4}, {"num_hidden_layers": 2}, {"vocab_size": 99}):
                (Path(folder) / "config.json").write_text(json.dumps(CONFIG | change))
                with self.assertRaises(EngineError) as caught:
                    bench.PyTorch.load(load_of(folder))
                self.assertEqual(caught.exception.kind, "unavailable")
                self.assertIn("model.safetensors", caught.exception.message)

    def test_bf16(self) -> None:
        for variant in ("", "opt"):
            load = load_of(self.model_dir, precision="bf16", variant=variant)
            engine, loaded = bench.PyTorch.load(load)
            self.assertEqual(loaded.weight_bytes * 2, self.loaded.weight_bytes)
            self.assertEqual(engine.prefill([[1, 2, 3]]), [engine.opinion(0, [], 0).argmax])

    def test_cuda_that_is_not_there(self) -> None:
        if self.torch.cuda.is_available():
            self.skipTest("it is there")
        with self.assertRaises(EngineError) as caught:
            bench.PyTorch.load(load_of(self.model_dir, backend="cuda", precision="f16"))
        self.assertEqual(caught.exception.kind, "unavailable")
        self.assertIn("no CUDA device", caught.exception.message)


if __name__ == "__main__":
    unittest.main()
