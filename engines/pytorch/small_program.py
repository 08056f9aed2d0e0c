"""Greedy tokens of a Llama in PyTorch: what a program looks like before it moves to Rust.

The same program in Rust is engines/candle/examples/small_program.rs. Tests compare the output of
both with that of the adapters.

    python small_program.py MODEL_DIR NEW_TOKENS ID...
"""

import sys

import torch
from transformers import AutoModelForCausalLM


def generate(model_dir: str, prompt: list[int], new_tokens: int) -> list[int]:
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    ids, cache, output = torch.tensor([prompt]), None, []
    with torch.inference_mode():
        for _ in range(new_tokens):
            step = model(input_ids=ids, past_key_values=cache, use_cache=True)
            cache = step.past_key_values
            ids = step.logits[:, -1:].argmax(-1)
            output.append(int(ids))
    return output


if __name__ == "__main__":
    _, model_dir, new_tokens, *prompt = sys.argv
    print(generate(model_dir, [int(id) for id in prompt], int(new_tokens)))
