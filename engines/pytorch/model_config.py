"""Reads what an adapter of GGUF files must know from config.json, and refuses the models that the
adapter's engine would silently compute in another way than they are meant.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from engine import EngineError
from model_files import read_json


class Config(NamedTuple):
    """The sizes of a model, and the angle per position by which RoPE rotates each pair of a
    head."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    epsilon: float  # of the norms
    frequencies: list[float]  # head_dim / 2


def read_config(model_dir: Path, max_context: int, architectures: tuple[str, ...]) -> Config:
    """Read the configuration of the model in a directory, which must be one of `architectures`."""
    return parse(read_json(model_dir / "config.json"), max_context, architectures)


def parse(config: dict[str, Any], max_context: int, architectures: tuple[str, ...]) -> Config:
    """Parse a configuration."""
    if why := unfit(config, max_context, architectures):
        raise EngineError("unsupported", f"this adapter can't run the model: {why}")
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    # transformers 5 writes `rope_parameters`; older versions wrote `rope_scaling` and `rope_theta`.
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = rope.get("rope_theta") or config.get("rope_theta", 10000.0)
    return Config(
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        vocabulary=config["vocab_size"],
        epsilon=config.get("rms_norm_eps", 1e-6),
        frequencies=[scaled(theta ** (-2 * i / head_dim), rope) for i in range(head_dim // 2)],
    )


def unfit(config: dict[str, Any], max_context: int, architectures: tuple[str, ...]) -> str | None:
    """Return why a model can't be run; `None` if it can."""
    if config.get("model_type") not in architectures:
        return f"its model_type is {config.get('model_type')!r}, not {', '.join(architectures)}"
    if config.get("attention_bias") or config.get("mlp_bias"):
        return "its layers have biases"
    window = config.get("sliding_window")
    if window is not None and config.get("use_sliding_window", True) and window < max_context:
        return f"it attends to {window} positions, fewer than the {max_context} asked for"
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope_type(rope) not in ("default", "linear", "llama3"):
        return f"its RoPE is of the type {rope_type(rope)!r}"
    for of in (config, rope):
        if of.get("partial_rotary_factor", 1.0) != 1.0:
            return "RoPE rotates a part of each head"
    return None


def rope_type(rope: dict[str, Any]) -> str:
    """Return the type of RoPE; older files call the field `type`."""
    return rope.get("rope_type") or rope.get("type") or "default"


def scaled(frequency: float, rope: dict[str, Any]) -> float:
    """Return a frequency after RoPE scaling, in radians per position. Llama 3's scaling is that of
    transformers' `_compute_llama3_parameters`: low frequencies are divided by the factor, high ones
    are kept, and those in between are interpolated."""
    kind = rope_type(rope)
    if kind == "default":
        return frequency
    factor = rope["factor"]
    if kind == "linear":
        return frequency / factor
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    turns = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)
    share = min(max((turns - low) / (high - low), 0.0), 1.0)
    return (1 - share) * frequency / factor + share * frequency
