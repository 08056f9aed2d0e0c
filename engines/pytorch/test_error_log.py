"""Tests of the log of errors: where it is written, and what stands in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import error_log

HERE = Path(__file__).parent


class ErrorLog(unittest.TestCase):
    def test_a_path_a_truthy_word_or_nothing(self) -> None:
        for variables, path in [
            ({}, None),
            ({"BENCH_ERROR_LOG": "e.log"}, "e.log"),
            ({"TEST_BURN_ERROR_LOG": "1"}, "test-burn-error.log"),
            ({"BENCH_ERROR_LOG": "TRUE", "TEST_BURN_ERROR_LOG": "x"}, "bench-errors.log"),
            ({"BENCH_ERROR_LOG": "off", "TEST_BURN_ERROR_LOG": "1"}, None),
        ]:
            self.assertEqual(error_log.path(variables), Path(path) if path else None)

    def test_a_failed_request_by_hand_is_an_entry(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            environment = {k: v for k, v in os.environ.items() if k not in error_log.VARIABLES}
            done = subprocess.run(
                [sys.executable, str(HERE / "dummy_engine.py")],
                input=json.dumps({"model_path": "nowhere", "prompt_ids": [1]}),
                env=environment | {"TEST_BURN_ERROR_LOG": "1"},
                cwd=directory,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 1, done.stderr)
            text = Path(directory, "test-burn-error.log").read_text()
        said = json.loads(done.stdout)["error"]["message"]
        stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
        self.assertRegex(text, rf"^{stamp} error \[dummy_engine.py\] {re.escape(said)}\n$")


if __name__ == "__main__":
    unittest.main()
