"""Tests of the engine on mistral.rs' wheel: what it refuses, its tokenizer of ids, and how many
bytes a decode step reads.

They need only the standard library, except the last class, which is skipped where the wheel or the
model isn't there. Whether a model's output is right is checked by the parity gate, not here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import tempfile
import unittest
from pathlib import Path
from typing import Any

import bench
import gguf
from engine import EngineError
from fixtures import load_of
from id_tokenizer import IdTokenizer
from weights import decode_bytes

CONFIG = {
    "model_type": "llama",
    "vocab_size": 4,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
MODELS = os.environ.get("BENCH_MODELS_DIR") or Path(__file__).resolve().parents[2] / "models"
MODEL = Path(MODELS) / "tiny-llama"


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def gguf_file(tensors: list[tuple[str, tuple[int, ...], int]]) -> bytes:
    """Return a header with one value of each shape that must be skipped, and no weights."""
    values = [
        string("a") + struct.pack("<I", gguf.STRING) + string("llama"),
        string("b") + struct.pack("<IIQ", gguf.ARRAY, 4, 2) + bytes(8),
        string("c") + struct.pack("<IIQ", gguf.ARRAY, gguf.STRING, 1) + string("piece"),
        string("d") + struct.pack("<IQ", 10, 7),
    ]
    entries = [
        string(name)
        + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        + struct.pack("<IQ", type, 0)
        for name, shape, type in tensors
    ]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values))
    return head + b"".join(values) + b"".join(entries)


class Refusals(unittest.TestCase):
    def refused(self, kind: str, word: str, **more: Any) -> None:
        with tempfile.TemporaryDirectory() as dir:
            (Path(dir) / "config.json").write_text(json.dumps(CONFIG))
            with self.assertRaises(EngineError) as caught:
                bench.MistralRs.load(load_of(dir, **more))
        self.assertEqual(caught.exception.kind, kind, caught.exception.message)
        self.assertIn(word, caught.exception.message)

    def test_what_the_adapter_does_not_run(self) -> None:
        self.refused("unsupported", "no backend", backend="cuda")
        self.refused("unsupported", "not q8_0 of variant 'opt'", variant="opt")
        self.refused("unsupported", "not a GGUF file", weights="model.safetensors")
        self.refused("unsupported", "not safetensors", variant="isq")

    def test_files_that_are_missing_or_spoilt(self) -> None:
        self.refused("unavailable", "cannot be read")
        with tempfile.TemporaryDirectory() as dir:
            for spoilt in (b"", b"GGUF", b"nope" + bytes(40), gguf_file([])[:30]):
                path = Path(dir) / "model.gguf"
                path.write_bytes(spoilt)
                with self.assertRaises(EngineError) as caught:
                    gguf.read_tensors(path)
                self.assertIn("is no GGUF file", caught.exception.message)

    def test_hello_says_what_is_held_back(self) -> None:
        hello = bench.MistralRs.hello(load_of("."))
        self.assertEqual(hello.capabilities["batching"], "none")
        self.assertIn("One request at a time", " ".join(hello.capabilities["notes"]))
        self.assertEqual(len(hello.build["lock_sha256"]), 64)


class Ids(unittest.TestCase):
    def written(self, vocab: dict[str, int], added: list[dict[str, Any]]) -> IdTokenizer:
        with tempfile.TemporaryDirectory() as dir:
            path = Path(dir) / "tokenizer.json"
            path.write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": added}))
            return IdTokenizer.of_model(path)

    def test_ids_become_pieces_and_pieces_ids(self) -> None:
        tokenizer = self.written({"Ġa": 1, "b": 2}, [{"content": "<s>", "id": 0}])
        self.assertEqual(tokenizer.text([0, 1, 2, 1]), "<s>\ue000Ġa\ue000b\ue000Ġa")
        self.assertEqual([tokenizer.id(piece) for piece in ("Ġa", "<s>")], [1, 0])
        for spoilt in ("Ġab", ""):
            with self.assertRaises(EngineError):
                tokenizer.id(spoilt)
        with self.assertRaises(EngineError):
            tokenizer.text([3])

    def test_the_separator_occurs_in_no_piece(self) -> None:
        tokenizer = self.written({"\ue000": 0, "a": 1}, [])
        self.assertEqual(tokenizer.text([0, 1]), "\ue000\ue001a")

    def test_a_vocabulary_of_bytes_is_refused(self) -> None:
        with self.assertRaises(EngineError) as caught:
            self.written({"<0x0A>": 0, "a": 1}, [])
        self.assertEqual(caught.exception.kind, "unsupported")
        with self.assertRaises(EngineError):
            self.written({}, [])


class Bytes(unittest.TestCase):
    def test_of_a_gguf_file(self) -> None:
        tensors = [
            ("token_embd.weight", (32, 4), 8),
            ("blk.0.attn_q.weight", (32, 32), 8),
            ("blk.0.attn_norm.weight", (32,), 0),
            ("rope_freqs.weight", (16,), 0),
        ]
        with tempfile.TemporaryDirectory() as dir:
            path = Path(dir) / "model.gguf"
            path.write_bytes(gguf_file(tensors))
            # 34 bytes for 32 weights; the embedding is the output head too.
            tied = 4 * 34 + 32 * 34 + 32 * 4
            self.assertEqual(decode_bytes(Path(dir), "model.gguf", True, False), tied)
            path.write_bytes(gguf_file([*tensors, ("output.weight", (32, 4), 1)]))
            # f16 is held as f32, and only single rows of the embedding are read.
            self.assertEqual(gguf.weight_bytes(gguf.read_tensors(path)), tied - 4 * 34 + 128 * 4)

    def test_of_safetensors(self) -> None:
        shapes = {
            "model.embed_tokens.weight": [4, 32],
            "model.layers.0.self_attn.q_proj.weight": [32, 32],
            "model.norm.weight": [32],
            "lm_head.weight": [4, 32],
        }
        header = {
            name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
            for name, shape in shapes.items()
        }
        with tempfile.TemporaryDirectory() as dir:
            (Path(dir) / "config.json").write_text(json.dumps(CONFIG))
            said = json.dumps({**header, "__metadata__": {"format": "pt"}}).encode()
            path = Path(dir) / "model.safetensors"
            path.write_bytes(struct.pack("<Q", len(said)) + said)
            of = lambda quantised: decode_bytes(Path(dir), path.name, False, quantised)  # noqa: E731
            self.assertEqual(of(False), (32 * 32 + 32 + 4 * 32) * 4)
            self.assertEqual(of(True), (32 * 32 + 4 * 32) // 32 * 34 + 32 * 4)

    def test_keys_and_values_of_a_position(self) -> None:
        self.assertEqual(bench.kv_bytes_per_token(CONFIG, "q8_0"), 2 * 3 * 2 * 8 * 2)
        self.assertEqual(bench.kv_bytes_per_token(CONFIG, "f32"), 2 * 3 * 2 * 8 * 4)


@unittest.skipUnless(importlib.util.find_spec("mistralrs"), "the wheel is not installed")
@unittest.skipUnless((MODEL / "model-q8_0.gguf").is_file(), f"there is no model in {MODEL}")
class Wheel(unittest.TestCase):
    def test_output_is_as_long_as_asked_and_what_the_scores_say(self) -> None:
        engine, _ = bench.MistralRs.load(load_of(MODEL))
        prompt = [1, 1817, 1820, 14]
        output = [id for (id,) in engine.generate([prompt], 6)]
        self.assertEqual(len(output), 6)
        asks = [[id] for id in output]
        opinions = engine.score(prompt + output[:-1], asks, 4)
        self.assertEqual([opinion.argmax for opinion in opinions], output)
        self.assertEqual([len(opinion.top_ids) for opinion in opinions], [4] * 6)

    def test_a_score_goes_on_where_mistral_rs_would_have_said_something_else(self) -> None:
        engine, _ = bench.MistralRs.load(load_of(MODEL))
        prompt = [1, 1817, 1820, 14]
        forced = [(id + 1) % engine.vocabulary for (id,) in engine.generate([prompt], 3)]
        opinions = engine.score(prompt + forced, [[7]] * 4, 1)
        self.assertEqual(len(opinions), 4)
        for end, opinion in enumerate(opinions):
            alone = engine.score(prompt + forced[:end], [[7]], 1)
            self.assertEqual(alone, [opinion])


if __name__ == "__main__":
    unittest.main()
