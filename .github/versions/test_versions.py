"""Tests of what versions.py reads and writes. No registry is asked."""

from __future__ import annotations

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest("versions.py is for Python 3.11 and newer, which has tomllib")

import versions

LOCK = """
[[package]]
name = "a-core"
version = "0.9.0"
source = "registry+https://example.org"

[[package]]
name = "a-core"
version = "0.10.0"
source = "registry+https://example.org"

[[package]]
name = "b"
version = "1.0.0"
source = "git+https://example.org"
"""


class Reading(unittest.TestCase):
    def test_what_is_locked(self) -> None:
        self.assertEqual(versions.locked_by_cargo(LOCK, "a-core"), "0.10.0")
        self.assertIsNone(versions.locked_by_cargo(LOCK, "b"), "no registry has it")
        lock = "ab==1.0 \\\n    --hash=x\nb==2.0 ; python_version < '3'\n"
        self.assertEqual(versions.locked_by_pip(lock, "b"), "2.0")
        self.assertIsNone(versions.locked_by_pip(lock, "c"))

    def test_what_clients_list(self) -> None:
        said = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.1\n"
        self.assertEqual(versions.listed_by_pip(said), ["2.15.0", "2.14.1"])
        self.assertEqual(versions.listed_by_cargo("a\nversion: 0.9.0 (latest 1.0.0)\n"), ["0.9.0"])
        self.assertEqual(versions.listed_by_pip("") + versions.listed_by_cargo(""), [])

    def test_versions_are_compared_by_numbers(self) -> None:
        self.assertGreater(versions.order("0.10.0"), versions.order("0.9.9"))
        self.assertEqual(versions.order("1.2.0-rc.1"), [1, 2, 0])

    def test_every_engine_of_this_repository_is_pinned_where_it_is_looked_for(self) -> None:
        pins = versions.pins()
        self.assertIn(versions.PYTHON, {pin.kind for pin in pins})
        self.assertIn(versions.CARGO, {pin.kind for pin in pins})
        for pin in pins:
            self.assertTrue(versions.order(pin.version), pin)
            header = ""
            if pin.kind == versions.PYTHON:
                lines = (pin.directory / "requirements.lock").read_text().splitlines()
                header = "\n".join(lines[: versions.HEADER_LINES])
                self.assertIn("--python-version", header, pin)
                self.assertTrue(lines[versions.HEADER_LINES - 1].startswith("#"), pin)
                self.assertFalse(lines[versions.HEADER_LINES].startswith("#"), pin)


class Moving(unittest.TestCase):
    def test_what_is_released_together_moves_together(self) -> None:
        text = "# a\na-genai==1.4.1.0\na==1.4.1\nab==1.4.1\nb==5.*\n"
        moved = versions.moved_requirements(text, "a-genai", "1.4.1.0", "1.5.0.0")
        self.assertEqual(moved, "# a\na-genai==1.5.0.0\na==1.5.0\nab==1.4.1\nb==5.*\n")

    def test_crates_of_another_version_or_family_stay(self) -> None:
        text = 'a-core = "0.1.0"\na = { version = "=0.1.0", features = [] }\nab = "0.1.0"\na-x = "0.2.0"\n'
        moved = versions.moved_crates(text, "a", "0.1.0", "0.3.0")
        self.assertEqual(
            moved,
            'a-core = "0.3.0"\na = { version = "=0.3.0", features = [] }\nab = "0.1.0"\na-x = "0.2.0"\n',
        )


if __name__ == "__main__":
    unittest.main()
