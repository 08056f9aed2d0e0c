"""OpenVINO GenAI driven directly, without our adapter: its own pipeline on a GGUF file, with the
scheduler and the paged attention that it chooses itself.

`cargo xtask bench-adapters` runs it beside the adapter to see what that costs. It reads the request
that the adapter answers by hand and prints one JSON object with `output_tok_per_s`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    ask = json.load(sys.stdin)
    import numpy as np
    import openvino
    import openvino_genai as genai

    pipeline = genai.LLMPipeline(
        Path(ask["model_path"]) / ask["weights"],
        "CPU",
        scheduler_config=scheduler(genai),
        INFERENCE_NUM_THREADS=ask["threads"],
    )
    greedy = genai.GenerationConfig()
    greedy.max_new_tokens = ask["new_tokens"]
    greedy.ignore_eos = True
    greedy.do_sample = False
    prompt = np.array([ask["prompt_ids"]], dtype=np.int64)
    tokens = genai.TokenizedInputs(openvino.Tensor(prompt), openvino.Tensor(np.ones_like(prompt)))
    output: list[int] = []
    seconds = 0.0
    for iteration in range(ask["warmup"] + ask["iterations"]):
        start = time.perf_counter()
        output = pipeline.generate(tokens, greedy).tokens[0]
        if iteration >= ask["warmup"]:
            seconds += time.perf_counter() - start
    rate = ask["new_tokens"] * ask["iterations"] / seconds
    print(json.dumps({"output_tok_per_s": rate, "output_ids": [int(id) for id in output]}))


def scheduler(genai: Any) -> Any:
    """GenAI's own scheduler for one user, without the prefix cache, because the same prompt is sent
    again and again."""
    config = genai.SchedulerConfig()
    config.enable_prefix_caching = False
    config.max_num_batched_tokens = sys.maxsize
    return config


if __name__ == "__main__":
    main()
