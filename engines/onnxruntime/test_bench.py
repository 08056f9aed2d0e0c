"""Tests of the ONNX Runtime engine: what it refuses, how it unpacks q8_0, and its graph against the
same computation in NumPy.

The first class needs only the standard library; the others are skipped where ONNX Runtime is not
installed. Whether a model's output is right is checked by the parity gate, not here.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import bench
import model_config
from engine import EngineError
from fixtures import load_of

CONFIG = {
    "model_type": "llama",
    "vocab_size": 48,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
INNER = 96
installed = unittest.skipUnless(
    all(map(importlib.util.find_spec, bench.PACKAGES)), "ONNX Runtime is not installed"
)


class Refusals(unittest.TestCase):
    def refused(self, word: str, config: dict[str, Any] = CONFIG, **more: Any) -> None:
        with tempfile.TemporaryDirectory() as dir:
            (Path(dir) / "config.json").write_text(json.dumps(config))
            with self.assertRaises(EngineError) as caught:
                bench.OnnxRuntime.load(load_of(dir, **more))
        self.assertEqual(caught.exception.kind, "unsupported", caught.exception.message)
        self.assertIn(word, caught.exception.message)

    def test_what_the_adapter_does_not_run(self) -> None:
        self.refused("no variant", variant="opt")
        self.refused("no backend", backend="cuda")
        self.refused("not bf16", precision="bf16")
        self.refused("a .safetensors file", precision="f32")
        self.refused("'qwen3'", CONFIG | {"model_type": "qwen3"})
        self.refused("32 positions", CONFIG | {"sliding_window": 32})

    def test_hello_names_the_versions(self) -> None:
        hello = bench.OnnxRuntime.hello(load_of("."))
        self.assertEqual(hello.build["onnxruntime"], hello.version)
        self.assertEqual(len(hello.build["lock_sha256"]), 64)

    def test_keys_and_values_of_a_position(self) -> None:
        config = model_config.parse(CONFIG, 64, bench.ARCHITECTURES)
        # Keys and values of two layers with two heads of 16 numbers.
        self.assertEqual(bench.kv_bytes_per_token(config), 2 * 2 * 2 * 16 * 4)


@installed
class Unpacking(unittest.TestCase):
    def test_a_block(self) -> None:
        import numpy as np

        from weights import Quantised

        values = np.arange(-16, 16, dtype=np.int8)
        scale = np.array([0.5], dtype=np.float16)
        row = np.frombuffer(scale.tobytes() + values.tobytes(), dtype=np.uint8)
        matrix = Quantised.of(row[None])
        np.testing.assert_array_equal(matrix.values()[0], values * 0.5)
        twice = Quantised.joined([matrix, matrix])
        self.assertEqual((twice.packed.shape, twice.scales.shape), ((2, 1, 32), (2, 1)))

    def test_names(self) -> None:
        from weights import gguf_name

        for theirs, ours in [
            ("model.layers.12.mlp.up_proj.weight", "blk.12.ffn_up.weight"),
            ("model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight"),
            ("lm_head.weight", "output.weight"),
            ("other.bias", "other.bias"),
        ]:
            self.assertEqual(gguf_name(theirs), ours)

    def test_safetensors(self) -> None:
        import weights

        header = {
            "model.norm.weight": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
            "lm_head.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [4, 8]},
        }
        text = json.dumps(header).encode()
        with tempfile.TemporaryDirectory() as dir:
            path = Path(dir) / "model.safetensors"
            # 1.5 and -2 are the upper halves of 0x3fc00000 and 0xc0000000.
            values = bytes([0xC0, 0x3F, 0x00, 0xC0, 0, 0, 0xC0, 0x3F])
            path.write_bytes(len(text).to_bytes(8, "little") + text + values)
            found = weights.read(path)
            self.assertFalse(found.neighbours)
            self.assertEqual(found.tensors["output_norm.weight"].tolist(), [1.5, -2.0])
            self.assertEqual(found.tensors["output.weight"].tolist(), [[1.5]])

    def test_files_that_are_none(self) -> None:
        import weights

        with tempfile.TemporaryDirectory() as dir:
            path = Path(dir) / "model.gguf"
            for spoilt in (None, b"", b"GGUF", b"nope" + bytes(40)):
                if spoilt is not None:
                    path.write_bytes(spoilt)
                with self.assertRaises(EngineError) as caught:
                    weights.read(path)
                self.assertEqual(caught.exception.kind, "unavailable")


@installed
class Computation(unittest.TestCase):
    """A model of two layers with random weights."""

    def setUp(self) -> None:
        import numpy as np

        self.np = np
        self.random = np.random.default_rng(1)
        self.config = model_config.parse(CONFIG, 64, bench.ARCHITECTURES)

    def weights(self, matrix: Any) -> dict[str, Any]:
        """All tensors of a Llama; `matrix` makes one of so many rows and columns."""
        hidden, heads = 64, {"q": 64, "k": 32, "v": 32}
        found = {"token_embd.weight": matrix(48, hidden)}
        for n in range(2):
            blk = f"blk.{n}"
            found |= {f"{blk}.attn_{part}.weight": matrix(rows, 64) for part, rows in heads.items()}
            found[f"{blk}.attn_output.weight"] = matrix(hidden, 64)
            found[f"{blk}.ffn_gate.weight"] = matrix(INNER, hidden)
            found[f"{blk}.ffn_up.weight"] = matrix(INNER, hidden)
            found[f"{blk}.ffn_down.weight"] = matrix(hidden, INNER)
            for norm in ("attn", "ffn"):
                found[f"{blk}.{norm}_norm.weight"] = self.norm()
        return found | {"output_norm.weight": self.norm()}

    def norm(self) -> Any:
        return self.random.uniform(0.5, 1.5, 64).astype(self.np.float32)

    def plain(self, rows: int, columns: int) -> Any:
        return self.random.normal(0, 0.2, (rows, columns)).astype(self.np.float32)

    def quantised(self, rows: int, columns: int) -> Any:
        from weights import Quantised

        packed = self.random.integers(1, 256, (rows, columns // 32, 32), dtype=self.np.uint8)
        scales = self.random.uniform(0.001, 0.005, (rows, columns // 32))
        return Quantised(packed, scales.astype(self.np.float32))

    def session_of(self, tensors: dict[str, Any]) -> Any:
        ort, graph, weights, session = bench.imported()
        return session.Session(
            bench.started(ort, graph.make(self.config, weights.Weights(tensors, True), 64), 1),
            ort.OrtValue.ortvalue_from_numpy,
            self.config,
            2,
            64,
        )

    def expected(self, weights: dict[str, Any], ids: list[int]) -> Any:
        """The logits of the last position, computed in f64."""
        np = self.np
        of = lambda name: np.asarray(  # noqa: E731
            w.values() if hasattr(w := weights[name], "values") else w, dtype=np.float64
        )
        norm = lambda x, name: (  # noqa: E731
            x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * of(name)
        )
        angles = np.outer(np.arange(len(ids)), self.config.frequencies)[:, None]

        def turned(x: Any) -> Any:
            even, odd = x[..., 0::2], x[..., 1::2]
            pairs = (
                even * np.cos(angles) - odd * np.sin(angles),
                even * np.sin(angles) + odd * np.cos(angles),
            )
            return np.stack(pairs, -1).reshape(x.shape)

        x = of("token_embd.weight")[ids]
        mask = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        for n in range(2):
            y = norm(x, f"blk.{n}.attn_norm.weight")
            q, k, v = (y @ of(f"blk.{n}.attn_{part}.weight").T for part in "qkv")
            q = turned(q.reshape(len(ids), 4, 16))
            k = turned(k.reshape(len(ids), 2, 16)).repeat(2, axis=1)
            v = v.reshape(len(ids), 2, 16).repeat(2, axis=1)
            scores = np.einsum("qhd,khd->hqk", q, k) / 4 + mask
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            attended = np.einsum("hqk,khd->qhd", shares, v).reshape(len(ids), 64)
            x = x + attended @ of(f"blk.{n}.attn_output.weight").T
            y = norm(x, f"blk.{n}.ffn_norm.weight")
            gate = y @ of(f"blk.{n}.ffn_gate.weight").T
            up = y @ of(f"blk.{n}.ffn_up.weight").T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ of(f"blk.{n}.ffn_down.weight").T
        return norm(x, "output_norm.weight")[-1] @ of("token_embd.weight").T

    def agree(self, weights: dict[str, Any], tolerance: float) -> None:
        session = self.session_of(weights)
        prompts = [[3, 1, 4, 1, 5], [2, 7, 1, 8, 2]]
        session.begin(prompts)
        chosen = session.feed([[9], [8]])
        for row, last in enumerate((9, 8)):
            wanted = self.expected(weights, [*prompts[row], last])
            opinion = session.opinion(row, list(range(48)), 3)
            shifted = wanted - wanted.max()
            logprobs = shifted - self.np.log(self.np.exp(shifted).sum())
            self.np.testing.assert_allclose(opinion.logprobs, logprobs, atol=tolerance)
            self.assertEqual(opinion.argmax, chosen[row])
        # After a batch with another number of rows, nothing of that batch may be seen.
        session.begin([[3, 1, 4]])
        first = session.opinion(0, [0, 1], 1)
        session.begin([[5, 5]])
        session.begin([[3, 1, 4]])
        self.assertEqual(session.opinion(0, [0, 1], 1), first)
        # Again as many rows as at first.
        session.begin(prompts)
        self.assertEqual(session.feed([[9], [8]]), chosen)

    def test_in_f32(self) -> None:
        self.agree(self.weights(self.plain), 1e-4)

    def test_in_q8_0(self) -> None:
        # Activations have 8 bits.
        self.agree(self.weights(self.quantised), 0.2)

    def test_an_output_matrix_of_its_own(self) -> None:
        _, graph, weights, _ = bench.imported()
        tied = self.weights(self.plain)
        untied = tied | {"output.weight": self.plain(48, 64)}
        both = (weights.Weights(tensors, True) for tensors in (tied, untied))
        sizes = [graph.make(self.config, each, 64).weight_bytes for each in both]
        # A step reads only single rows of the embedding table.
        self.assertEqual(sizes[0], sizes[1])
