"""mistral.rs' wheel driven directly, without our adapter: one request at a time that isn't
streamed, timed from outside until the whole answer is there.

`cargo xtask bench-adapters` runs it beside the adapter to see what that costs. It reads the request
that the adapter answers by hand and prints one JSON object with `output_tok_per_s`. Prompts go
through the adapter's tokenizer of ids, because the model's own could read other tokens.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[2] / "pytorch"))

from bench import import_mistralrs, open_runner
from id_tokenizer import IdTokenizer


def main() -> None:
    ask = json.load(sys.stdin)
    os.environ["RAYON_NUM_THREADS"] = str(ask["threads"])
    directory = Path(ask["model_path"])
    tokenizer = IdTokenizer.of_model(directory / "tokenizer.json")
    runner = open_runner(directory / ask["weights"], tokenizer, None)
    mistralrs = import_mistralrs()

    def ask_for(stream: bool) -> Any:
        request = mistralrs.ChatCompletionRequest(
            messages=tokenizer.text(ask["prompt_ids"]),
            model="default",
            max_tokens=ask["new_tokens"],
            temperature=0.0,
            ignore_eos=True,
            stream=stream,
        )
        return runner.send_chat_completion_request(request)

    # Only a stream gives each token by itself, and so its id.
    ids = [tokenizer.id(chunk.choices[0].delta.content) for chunk in ask_for(stream=True)]
    seconds = 0.0
    for iteration in range(ask["warmup"] + ask["iterations"]):
        start = time.perf_counter()
        answer = ask_for(stream=False)
        if iteration >= ask["warmup"]:
            seconds += time.perf_counter() - start
        if answer.usage.completion_tokens != len(ids):
            sys.exit(f"{answer.usage.completion_tokens} tokens came instead of {len(ids)}")
    rate = ask["new_tokens"] * ask["iterations"] / seconds
    print(json.dumps({"output_tok_per_s": rate, "output_ids": ids}))


if __name__ == "__main__":
    main()
