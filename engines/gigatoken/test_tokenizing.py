"""Tests of GigaToken's micro program: its texts are those of the Rust program, and its output is
every text's ids.

The first need the standard library alone; the last is skipped where GigaToken is not installed.
Whether its ids are those of `tokenizers` is the harness's to judge.
"""

from __future__ import annotations

import importlib.util
import json
import struct
import tempfile
import unittest
from pathlib import Path
from typing import Any

import texts
import tokenizing
from engine import EngineError

LOAD = {"variant": "gigatoken", "threads": 2, "seed": 1}


def tokenizer_json() -> str:
    """A byte-level BPE of GPT-2's pieces with one merge: `ab` is 256, a byte is itself."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    vocab = {chr(byte if byte in plain else next(others)): byte for byte in range(256)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {
        "type": "BPE",
        "vocab": vocab | {"ab": 256},
        "merges": [["a", "b"]],
        "byte_fallback": False,
    }
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {**level, "use_regex": True},
            "post_processor": None,
            "decoder": {**level, "use_regex": True},
            "model": model,
        }
    )


class Texts(unittest.TestCase):
    def test_random_numbers_are_those_of_the_rust_programs(self) -> None:
        # crates/models/src/prng.rs pins the same.
        self.assertEqual(texts.bits(0, 0), 0xE220_A839_7B1D_CDAF)
        key = texts.Rng(1, "model.norm.weight")._key
        self.assertEqual(texts.bits(key, 0), 0xA23B_9BAE_BAE6_4C1A)

    def test_the_words_are_read_where_rust_has_them(self) -> None:
        words = texts.word_lists(texts.WORDS.read_text(encoding="utf-8"))
        self.assertEqual(words["NAME_START"][:2], ["Al", "Bra"])
        self.assertEqual(words["NAME_MIDDLE"][-3:], ["", "", ""])
        self.assertIn("東京", words["FOREIGN"])
        self.assertEqual(words["IDENTIFIERS"][-1], "value")

    def test_texts_have_their_length_and_none_is_another(self) -> None:
        plain, mixed = texts.texts(7, 8, 300, False), texts.texts(7, 8, 300, True)
        self.assertEqual([len(text) for text in plain], [300] * 8)
        self.assertEqual(len({*plain, *mixed}), 16)
        self.assertTrue(all(len(text.encode()) > 400 for text in mixed))
        self.assertEqual(texts.texts(7, 2, 300, False), plain[:2])


class Refusals(unittest.TestCase):
    def test_another_variant(self) -> None:
        with self.assertRaises(EngineError) as caught:
            tokenizing.Tokenizing(LOAD | {"variant": "serial", "model_dir": "."})
        self.assertEqual(caught.exception.kind, "unsupported")


@unittest.skipUnless(importlib.util.find_spec("gigatoken"), "GigaToken is not installed")
class Tokenizing(unittest.TestCase):
    def opened(self, content: str, **more: Any) -> tokenizing.Tokenizing:
        with tempfile.TemporaryDirectory() as dir:
            (Path(dir) / "tokenizer.json").write_text(content)
            return tokenizing.Tokenizing({**LOAD, "model_dir": dir, **more})

    def test_the_output_is_each_texts_number_of_ids_and_its_ids(self) -> None:
        for variant in tokenizing.RUNS:
            suite = self.opened(tokenizer_json(), variant=variant)
            suite._texts = ["abba", "a"]
            suite.call()
            values = struct.unpack("<6d", suite.output())
            self.assertEqual(values, (3, 256, ord("b"), ord("a"), 1, ord("a")), variant)

    def test_a_file_that_it_does_not_take_is_unsupported_in_one_line(self) -> None:
        with self.assertRaises(EngineError) as caught:
            self.opened("{}")
        self.assertEqual(caught.exception.kind, "unsupported")
        self.assertIn("tokenizer.json", caught.exception.message)
        self.assertNotIn("\n", caught.exception.message)


if __name__ == "__main__":
    unittest.main()
