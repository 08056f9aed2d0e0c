"""The program that asks `llama-bench`, against one that is scripted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).parent / "direct" / "llama_bench.py"
# It writes down what it was asked, and answers two samples of 2 s.
SCRIPTED = """#!/bin/sh
echo "$@" > "$(dirname "$0")/asked"
echo '[{"samples_ns": [2000000000, 2000000000], "build_number": 7, "build_commit": "abc"}]'
"""


class LlamaBench(unittest.TestCase):
    def ask(self, prompt: int, new_tokens: int) -> tuple[dict[str, object], str]:
        request = {
            "model_path": "models/m",
            "weights": "model-q8_0.gguf",
            "prompt_ids": [1] * prompt,
            "new_tokens": new_tokens,
            "threads": 3,
            "iterations": 2,
        }
        with tempfile.TemporaryDirectory() as folder:
            tool = Path(folder) / "llama-bench"
            tool.write_text(SCRIPTED)
            tool.chmod(0o755)
            path = os.pathsep.join([folder, os.environ["PATH"]])
            answer = subprocess.run(
                [sys.executable, str(PROGRAM)],
                input=json.dumps(request).encode(),
                stdout=subprocess.PIPE,
                env={**os.environ, "PATH": path},
                check=True,
            )
            return json.loads(answer.stdout), (Path(folder) / "asked").read_text()

    def test_one_token_is_the_reading_of_a_prompt(self) -> None:
        answer, asked = self.ask(256, 1)
        self.assertEqual(answer, {"output_tok_per_s": 0.5, "version": "llama-bench, build 7 (abc)"})
        self.assertTrue(asked.startswith("-p 256 -n 0 -m models/m/model-q8_0.gguf"), asked)
        self.assertIn("-t 3 -r 2", asked)

    def test_the_first_of_several_tokens_comes_with_the_prompt(self) -> None:
        answer, asked = self.ask(16, 32)
        self.assertEqual(answer["output_tok_per_s"], 16.0)
        self.assertIn("-pg 16,31", asked)


if __name__ == "__main__":
    unittest.main()
