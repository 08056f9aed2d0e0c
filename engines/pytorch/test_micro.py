"""Tests of the micro program: its inputs are those of the Rust programs, and its attention is one.

The first needs nothing, the second NumPy, the third torch; each is skipped without.
"""

from __future__ import annotations

import importlib.util
import math
import struct
import unittest

import draw
import micro
from engine import EngineError


class Draw(unittest.TestCase):
    def test_the_key_is_that_of_the_rust_programs(self) -> None:
        # engines/micro-inputs/src/draw.rs holds the same.
        self.assertEqual(draw.key(7, "q"), 0x6BAD_B866_31DF_1443)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
    def test_numbers_are_those_of_the_rust_programs(self) -> None:
        drawn = draw.uniform(7, "q", 3, 1.0).tolist()
        self.assertEqual(drawn, [0.3811260461807251, -0.99657142162323, -0.21236371994018555])


class Refused(unittest.TestCase):
    def test_another_backend_is_unsupported(self) -> None:
        load = {"variant": "sdpa", "backend": "cuda", "precision": "f32", "threads": 1, "seed": 1}
        with self.assertRaises(EngineError) as refused:
            micro.Attention(load)
        self.assertEqual(refused.exception.kind, "unsupported")


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Attention(unittest.TestCase):
    def test_a_first_position_that_sees_itself_alone_takes_its_own_value(self) -> None:
        load = {"variant": "sdpa", "backend": "cpu", "precision": "f32", "threads": 1, "seed": 1}
        attention = micro.Attention(load)
        params = {"batch": 1, "heads": 1, "seq": 3, "dim": 4, "causal": 1}
        self.assertEqual(attention.prepare(params), 4.0 * 6 * 4)
        attention.call()
        values = struct.unpack("<12d", attention.output())
        own = draw.uniform(1, "v", 12, micro.SCALE)[:4].tolist()
        self.assertTrue(
            all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(values[:4], own, strict=True))
        )
        timed = micro.timed(attention, {"samples": 3, "sample_ns": 1000, "warmup_ns": 0})
        self.assertEqual(len(timed["ns"]), 3)
        self.assertLessEqual(sum(timed["ns"]), timed["end_ns"] - timed["start_ns"])


if __name__ == "__main__":
    unittest.main()
