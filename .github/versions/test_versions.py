"""Tests of what versions.py reads and writes. No registry is asked."""

from __future__ import annotations

import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

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
name = "a-core"
version = "1.0.0-rc.1"
source = "registry+https://example.org"

[[package]]
name = "b"
version = "1.0.0"
source = "git+https://example.org/b?rev=0123#0123456789abcdef0123456789abcdef01234567"
"""

# As Cargo keeps an entry of the index: a header, then each version and what is said of it.
INDEX = b"\0".join(
    [
        b'\x03\x02\x00\x00\x00"etag"',
        b"0.9.0",
        b'{"name":"a-core","vers":"0.9.0","yanked":false}',
        b"0.10.0",
        b'{"name":"a-core","vers":"0.10.0","yanked":false,"pubtime":"2026-01-30T01:02:03Z"}',
        b"0.10.1",
        b'{"name":"a-core","vers":"0.10.1","yanked":true,"pubtime":"2026-01-31T01:02:03Z"}',
        b"0.11.0",
        b'{"name":"a-core","vers":"0.11.0","yanked":false,"pubtime":"2026-02-20T01:02:03Z"}',
        b"0.12.0-rc.1",
        b'{"name":"a-core","vers":"0.12.0-rc.1","yanked":false,"pubtime":"2026-02-28T01:02:03Z"}',
        b"0.12.0",
        b'{"name":"a-core","vers":"0.12.0","yanked":false,"pubtime":"2026-03-01T01:02:03Z"}',
        b"",
    ]
)


class Reading(unittest.TestCase):
    def test_what_is_locked(self) -> None:
        self.assertEqual(versions.locked_by_cargo(LOCK, "a-core"), "0.10.0")
        self.assertIsNone(versions.locked_by_cargo(LOCK, "b"), "no registry has it")
        commit = "0123456789abcdef0123456789abcdef01234567"
        self.assertEqual(versions.locked_by_git(LOCK, "b"), ("https://example.org/b", commit))
        self.assertIsNone(versions.locked_by_git(LOCK, "a-core"))
        lock = "ab==1.0 \\\n    --hash=x\nb==2.0 ; python_version < '3'\n"
        self.assertEqual(versions.locked_by_pip(lock, "b"), "2.0")
        self.assertIsNone(versions.locked_by_pip(lock, "c"))

    def test_what_clients_list(self) -> None:
        said = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.1\n"
        self.assertEqual(versions.listed_by_pip(said), ["2.15.0", "2.14.1"])
        self.assertEqual(versions.listed_by_cargo("a\nversion: 0.9.0 (latest 1.0.0)\n"), ["0.9.0"])
        self.assertEqual(versions.listed_by_pip("") + versions.listed_by_cargo(""), [])

    def test_the_index_says_which_releases_there_are_and_of_which_day(self) -> None:
        listed = versions.listed_in_index(INDEX)
        self.assertEqual(list(listed), ["0.9.0", "0.10.0", "0.11.0", "0.12.0"])
        self.assertEqual([listed["0.9.0"], listed["0.11.0"]], ["", "2026-02-20"])
        self.assertEqual(versions.listed_in_index(b"another form"), {})
        found = versions.up_to(["0.11.0"], listed)
        self.assertEqual(list(found), ["0.11.0", "0.10.0", "0.9.0"], "0.12.0 needs a newer Rust")
        self.assertEqual(versions.up_to(["0.11.0"], {}), {"0.11.0": ""})
        self.assertEqual(versions.up_to([], listed), {}, "Cargo did not answer")

    def test_an_entry_of_the_index_is_found(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            for name, folders in (("abc", "3/a"), ("A-core", "a-/co"), ("a", "1")):
                copy = Path(home) / "registry/index/example/.cache" / folders / name.lower()
                copy.parent.mkdir(parents=True)
                copy.write_bytes(name.encode())
                with unittest.mock.patch.dict("os.environ", {"CARGO_HOME": home}):
                    self.assertEqual(versions.index_entry(name), name.encode())
                    self.assertEqual(versions.index_entry("none"), b"")

    def test_how_far_behind_is_said_in_releases_and_days(self) -> None:
        found = versions.up_to(["0.12.0"], versions.listed_in_index(INDEX))
        self.assertEqual(versions.amount("0.10.0", found, {}), ("2 newer", "30"))
        self.assertEqual(versions.amount("0.9.0", found, {}), ("3 newer", "—"))
        known = {"0.9.0": "2026-02-28"}
        self.assertEqual(versions.amount("0.9.0", found, known), ("3 newer", "1"))
        self.assertEqual(versions.amount("0.12.0", found, {}), ("none", "0"))
        self.assertEqual(versions.amount("0.9.0", {"0.12.0": ""}, known), ("newer", "—"))
        self.assertEqual(versions.amount("0.9.0", {}, known), ("could not be asked", "—"))

    def test_what_is_listed_and_moved_by_hand(self) -> None:
        listed = [pin.package for pin in versions.tokenizers()]
        self.assertEqual(listed, list(versions.TOKENIZERS))
        self.assertTrue(all("-" not in pin.version for pin in versions.tokenizers()))
        for at in versions.revisions():
            self.assertTrue(at.url.startswith("https://"), at)
            self.assertEqual(len(at.commit), 40, at)
        self.assertTrue(versions.revisions())

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
