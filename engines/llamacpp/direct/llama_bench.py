#!/usr/bin/env python3
"""llama.cpp's own benchmark, `llama-bench`, asked for the work that our adapter is asked for.

`cargo xtask bench-adapters` runs it beside the adapter where `llama-bench` is on PATH: build it
from the source that the crate names, with the flags that its users build it with. It makes up the
tokens of its prompts and of its output, so only speeds can be compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TOOL = "llama-bench"


def main() -> None:
    ask = json.load(sys.stdin)
    found = measure(ask)
    seconds = sum(found["samples_ns"]) / 1e9
    rate = ask["new_tokens"] * len(found["samples_ns"]) / seconds
    build = f"{TOOL}, build {found['build_number']} ({found['build_commit']})"
    print(json.dumps({"output_tok_per_s": rate, "version": build}))


def measure(ask: dict[str, Any]) -> dict[str, Any]:
    """The answer of `llama-bench` to one test, which it repeats `iterations` times."""
    command = [TOOL, *work(len(ask["prompt_ids"]), ask["new_tokens"])]
    command += ["-m", str(Path(ask["model_path"]) / ask["weights"])]
    command += ["-t", str(ask["threads"]), "-r", str(ask["iterations"])]
    # Only the processor, as in the adapter's target; `llama-bench` warms up by itself.
    command += ["-dev", "none", "-ngl", "0", "-o", "json"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(answer.stdout)[0]


def work(prompt: int, new_tokens: int) -> list[str]:
    """Return the options for a test that gives `new_tokens` tokens, the first of them by the
    prompt."""
    if new_tokens == 1:
        return ["-p", str(prompt), "-n", "0"]
    return ["-p", "0", "-n", "0", "-pg", f"{prompt},{new_tokens - 1}"]


if __name__ == "__main__":
    main()
