"""Loads torch, a device, and transformers' model with its weights; and checks what must be true of
them before anything is measured.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from engine import EngineError, Load, not_importable
from model_files import ARCHITECTURES, unusable

LOCK = Path(__file__).with_name("requirements.lock")

# No request may leave this machine, whatever a configuration file says. Libraries print no advice
# on stderr either, because the harness keeps only its last lines.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def import_torch(model_type: str) -> tuple[Any, Any]:
    """Import torch, and transformers' class for the architecture from the class's own module: the
    package itself and the Auto classes would import far more."""
    os.environ.update(ENVIRONMENT)
    try:
        import torch

        module = f"transformers.models.{model_type}.modeling_{model_type}"
        model_class = getattr(importlib.import_module(module), ARCHITECTURES[model_type])
    except (ImportError, OSError) as error:  # OSError: a shared library that cannot be loaded
        raise not_importable(error, LOCK) from None
    return torch, model_class


def configure(torch: Any, threads: int) -> None:
    """Set threads and arithmetic."""
    torch.set_num_threads(threads)
    # Operators run one after the other here, so a second pool would only be a way to use more
    # threads than were asked for. torch lets it be set once.
    if torch.get_num_interop_threads() != 1:
        torch.set_num_interop_threads(1)
    # f32 means f32: no TF32 on a GPU, no bf16 passes in oneDNN, whatever the environment says.
    # It is the default; `set_float32_matmul_precision("highest")` says the same, with a warning.
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"


def device_of(torch: Any, load: Load) -> Any:
    """The device asked for."""
    if load.backend == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise EngineError(
            "unavailable", f"no CUDA device (torch {torch.__version__}, CUDA {torch.version.cuda})"
        )
    if load.device >= torch.cuda.device_count():
        raise EngineError(
            "unavailable",
            f"no CUDA device {load.device}: this machine has {torch.cuda.device_count()}",
        )
    device = torch.device("cuda", load.device)
    torch.cuda.set_device(device)
    return device


def load_model(model_class: Any, model_dir: Path, weights: str, dtype: Any) -> Any:
    """Load the model as a user of transformers loads a local one, but with eager attention, which
    must be asked for: the default is sdpa, PyTorch's fused one, and the baseline is deliberately
    plain (plain.py). If the file already holds the precision asked for, the weights stay mapped
    from it, possibly unaligned, and the first request reads them in; the same happens to users."""
    try:
        model, info = model_class.from_pretrained(
            model_dir,
            dtype=dtype,
            attn_implementation="eager",
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:
        if out_of_memory(error) or isinstance(error, MemoryError):
            raise
        raise EngineError(
            "unavailable",
            f"transformers cannot load {model_dir / weights}: {type(error).__name__}: {error}",
        ) from error
    # transformers only warns if weights are missing, and makes up random ones; a model with random
    # layers is no reference.
    for what in ("missing_keys", "mismatched_keys", "unexpected_keys"):
        # Old exports contain tables that are now computed from the configuration.
        names = sorted(name for name in map(str, info[what]) if "rotary_emb" not in name)
        if names:
            why = f"does not fit its config.json: {what.replace('_', ' ')} {', '.join(names[:5])}"
            raise unusable(model_dir / weights, why)
    return model


def check_rope(read: Any, written: dict[str, Any]) -> None:
    """Check that transformers read config.json's RoPE fields, whose names it has changed before: a
    reference that drops them would be wrong without notice."""
    # transformers 5 writes `rope_parameters`; older versions wrote `rope_scaling` and `rope_theta`.
    scaling = dict(written.get("rope_scaling") or written.get("rope_parameters") or {})
    # Older files have `type` instead of `rope_type`.
    rope_type = scaling.pop("type", "default")
    theta = written.get("rope_theta", 10000.0)
    wanted = {"rope_type": rope_type, "rope_theta": theta, **scaling}
    found = {name: read.rope_parameters.get(name) for name in wanted}
    if found != wanted:
        raise EngineError(
            "internal", f"config.json's RoPE is {wanted}, but transformers read {found}"
        )


def weight_bytes(model: Any) -> int:
    """Bytes that one decode step reads: every parameter once, even if it is shared. A separate
    embedding table is not counted, because a step reads one line of it per row."""
    embedding = model.get_input_embeddings().weight
    tied = embedding is model.get_output_embeddings().weight
    return sum(
        parameter.nbytes
        for parameter in model.parameters()  # yields a tied one once
        if tied or parameter is not embedding
    )


def head_dim(config: Any) -> int:
    """Dimension of a head, which not every configuration contains."""
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def kv_bytes_per_token(config: Any, value_bytes: int) -> int:
    """Bytes of the keys and values of all layers for one position."""
    values = config.num_hidden_layers * config.num_key_value_heads * head_dim(config)
    return 2 * values * value_bytes


def runtime(torch: Any, device: Any) -> dict[str, str]:
    """What torch says of itself on this machine."""
    facts = {
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "interop_threads": str(torch.get_num_interop_threads()),
        "f32_matmul": torch.backends.cuda.matmul.fp32_precision,
    }
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["cudnn"] = str(torch.backends.cudnn.version())
    return facts


def out_of_memory(error: Exception) -> bool:
    """Whether an error means that torch ran out of memory, on the host or a device."""
    return (
        type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
        or "out of memory" in str(error)
    )
