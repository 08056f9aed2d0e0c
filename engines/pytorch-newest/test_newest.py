"""Tests of the engine with PyTorch's newest release: that it says which engine it is, and that what
holds of the baseline's code holds in this environment too.

The first half needs the standard library alone. The second is the tests of ../pytorch, skipped
where torch is not installed.
"""

from __future__ import annotations

import hashlib
import re
import unittest
from pathlib import Path

import newest
from bench import PyTorch
from engine import EngineError
from test_bench import Tokens as TokensOfNewest  # noqa: F401
from test_bench import load_of

HERE = Path(__file__).resolve().parent


def pinned(text: str, package: str) -> str:
    """The one version of a package that is named."""
    found = set(re.findall(rf"^{package}==([^ ;\\\n]+)", text, re.MULTILINE))
    if len(found) != 1:
        raise AssertionError(f"{package}: {found}")
    return found.pop()


class Identity(unittest.TestCase):
    def test_hello_names_the_engine_and_its_own_lock(self) -> None:
        hello = newest.Newest.hello(load_of("."))
        self.assertEqual(hello.engine, "pytorch-newest")
        lock = (HERE / "requirements.lock").read_bytes()
        self.assertEqual(hello.build["lock_sha256"], hashlib.sha256(lock).hexdigest())

    def test_the_baseline_is_what_it_was(self) -> None:
        hello = PyTorch.hello(load_of("."))
        self.assertEqual(hello.engine, "pytorch")
        self.assertNotEqual(
            hello.build["lock_sha256"], newest.Newest.hello(load_of(".")).build["lock_sha256"]
        )

    def test_a_refusal_names_the_engine(self) -> None:
        for more in ({"variant": "turbo"}, {"backend": "vulkan"}, {"precision": "q8_0"}):
            with self.assertRaises(EngineError) as caught:
                newest.Newest.load(load_of(".", **more))
            self.assertEqual(caught.exception.kind, "unsupported")
            self.assertIn("pytorch-newest", caught.exception.message)

    def test_the_lock_is_of_the_requirements_and_newer_than_the_baselines(self) -> None:
        lock = (HERE / "requirements.lock").read_text()
        wanted = pinned((HERE / "requirements.in").read_text(), "torch")
        self.assertEqual(pinned(lock, "torch"), wanted)
        baseline = (HERE.parent / "pytorch" / "requirements.lock").read_text()
        for package in ("torch", "transformers"):
            ours, theirs = pinned(lock, package), pinned(baseline, package)
            self.assertGreater(numbers(ours), numbers(theirs), package)


def numbers(version: str) -> list[int]:
    """A release, in a form that can be compared."""
    return [int(part) for part in version.split(".")]


if __name__ == "__main__":
    unittest.main()
