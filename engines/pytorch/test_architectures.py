"""Tests of the PyTorch engine on each architecture that it takes: that both variants are the same
model, that sizes are right, and that shards are read. Skipped where torch is not installed.

Whether a model's output is right is checked by the parity gate, not here.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import bench
import loading
from engine import EngineError
from model_files import ARCHITECTURES
from test_bench import PROMPTS, VALUE_BYTES, generated, load_of

COMMON = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rope_theta": 1000000.0,
    "rope_scaling": None,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# As the generator of the small models writes them, and the hub's models are.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": COMMON | {"head_dim": 16, "attention_bias": False, "mlp_bias": False},
    "mistral": COMMON | {"sliding_window": None},
    "phi3": COMMON
    | {
        "sliding_window": None,
        "original_max_position_embeddings": 512,
        "attention_bias": False,
        "pad_token_id": 0,
    },
    # A head is wider than `hidden_size / num_attention_heads`.
    "qwen3": COMMON
    | {
        "head_dim": 32,
        "attention_bias": False,
        "sliding_window": None,
        "use_sliding_window": False,
        "max_window_layers": 2,
        "tie_word_embeddings": True,
    },
}


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Architectures(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model_dir = Path(folder.name)

    def make(self, model_type: str, shard: str = "1GB", **more: Any) -> dict[str, Any]:
        """A model with random weights; its config.json."""
        os.environ.update(loading.ENVIRONMENT)
        torch, model_class = loading.import_torch(model_type)
        torch.manual_seed(2)
        fields = CONFIGS[model_type] | more
        config = model_class.config_class(**fields, initializer_range=0.3)
        model = model_class(config)
        # A new norm's weights are all ones, so an engine that ignores them would pass.
        for name, parameter in model.named_parameters():
            if "norm" in name:
                torch.nn.init.normal_(parameter, 1.0, 0.3)
        model.save_pretrained(self.model_dir, max_shard_size=shard)
        written = {"model_type": model_type, **fields}
        # As the generator writes it, not as this version of transformers would.
        (self.model_dir / "config.json").write_text(json.dumps(written))
        return written

    def test_both_variants_are_the_same_model(self) -> None:
        self.assertEqual(set(CONFIGS), set(ARCHITECTURES))
        for model_type in ARCHITECTURES:
            with self.subTest(model_type):
                self.make(model_type)
                plain, loaded = bench.PyTorch.load(load_of(self.model_dir))
                opt, of_opt = bench.PyTorch.load(load_of(self.model_dir, variant="opt"))
                self.assertEqual(loaded._replace(runtime={}), of_opt._replace(runtime={}))
                self.assertEqual(generated(opt, PROMPTS, 12), generated(plain, PROMPTS, 12))
                ids = list(range(60))
                asks = [[1, 2, 3]] * 4
                by_both = [
                    engine.score_parallel([ids], [asks], 3)[0][-1] for engine in (plain, opt)
                ]
                for a, b in zip(*(opinion.logprobs for opinion in by_both), strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-4)

    def test_sizes(self) -> None:
        for model_type, head_dim in (("phi3", 16), ("qwen3", 32)):
            with self.subTest(model_type):
                self.make(model_type)
                _, loaded = bench.PyTorch.load(load_of(self.model_dir))
                self.assertEqual(loaded.kv_bytes_per_token, 2 * 2 * 2 * head_dim * VALUE_BYTES)
                per_layer = 2 * 64 * 6 * head_dim + 3 * 64 * 96 + 2 * 64
                head_norms = 2 * 32 if model_type == "qwen3" else 0
                expected = 256 * 64 + 2 * (per_layer + head_norms) + 64
                self.assertEqual(loaded.weight_bytes, expected * VALUE_BYTES)

    def test_shards_are_the_same_model(self) -> None:
        self.make("mistral")
        whole, _ = bench.PyTorch.load(load_of(self.model_dir))
        said = generated(whole, PROMPTS, 8)
        (self.model_dir / "model.safetensors").unlink()
        self.make("mistral", shard="100KB")
        shards = sorted(self.model_dir.glob("model-*.safetensors"))
        self.assertGreater(len(shards), 1)
        self.assertFalse((self.model_dir / "model.safetensors").exists())
        engine, _ = bench.PyTorch.load(load_of(self.model_dir))
        self.assertEqual(generated(engine, PROMPTS, 8), said)
        shards[-1].unlink()
        with self.assertRaises(EngineError) as caught:
            bench.PyTorch.load(load_of(self.model_dir))
        self.assertEqual(caught.exception.kind, "unavailable")
        self.assertIn(shards[-1].name, caught.exception.message)

    def test_opt_refuses_what_it_would_compute_wrongly(self) -> None:
        for model_type, change, word in (
            ("mistral", {"sliding_window": 128}, "128 positions"),
            ("llama", {"attention_bias": True}, "biases"),
            ("phi3", {"partial_rotary_factor": 0.5}, "part of each head"),
        ):
            with self.subTest(model_type):
                self.make(model_type, **change)
                bench.PyTorch.load(load_of(self.model_dir))
                with self.assertRaises(EngineError) as caught:
                    bench.PyTorch.load(load_of(self.model_dir, variant="opt"))
                self.assertEqual(caught.exception.kind, "unsupported")
                self.assertIn(word, caught.exception.message)

    def test_a_window_is_the_models(self) -> None:
        """Beyond it, the plain engine attends as transformers does, cached or not."""
        self.make("mistral", sliding_window=16)
        engine, _ = bench.PyTorch.load(load_of(self.model_dir))
        ids = [(5 * i) % 256 for i in range(60)]
        (parallel,) = engine.score_parallel([ids], [[[1, 2]] * 10], 2)
        engine.prefill([ids[:51]])
        for position, opinion in enumerate(parallel):
            if position:
                engine.decode([ids[50 + position]])
            for a, b in zip(opinion.logprobs, engine.opinion(0, [1, 2], 2).logprobs, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-4)


if __name__ == "__main__":
    unittest.main()
