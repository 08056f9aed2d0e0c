"""`pytorch`: Hugging Face transformers' Llama as it comes, eager attention, plain layers.

This is the baseline that all ratios are against, and the reference whose outputs the other engines
must match. So it deliberately does nothing clever: no SDPA, no static cache, no compilation, no
CUDA graphs (the variant `opt` is for these), no `generate()` (its per-token bookkeeping is not the
model's), no fused or quantised layers. What it does choose is written beside the choice.

Run by the harness, or by hand: `echo '{"prompt":"Hello","model_path":"…"}' | python bench.py`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import struct
import sys
from pathlib import Path
from typing import Any

from engine import Engine, EngineError, Hello, Load, Loaded, Opinion
from protocol import main

PRECISIONS = {"cpu": ("f32", "bf16"), "cuda": ("f32", "f16", "bf16")}
# The names `from_pretrained` looks for. Others would need a loader of our own, which would no
# longer be what a user of transformers runs.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
LOCK = Path(__file__).with_name("requirements.lock")
INSTALL = f"install {LOCK.name} (`cargo xtask build` does) and run its python"

# No request leaves this machine, whatever a configuration file says; and no advice on stderr,
# of which the harness keeps only the last lines.
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


class PyTorch(Engine):
    """The plain variant. Another overrides what it does otherwise and goes into `VARIANTS`."""

    def __init__(self, torch: Any, model: Any, device: Any) -> None:
        self.vocabulary = model.config.vocab_size
        self._torch = torch
        self._model = model
        self._device = device
        self._cache: Any = None
        self._logits: Any = None  # rows × vocabulary, after the last position

    @classmethod
    def hello(cls, load: Load) -> Hello:
        """Read from files: importing torch takes seconds, and hello must not wait for them."""
        torch_dir = package_dir("torch")
        torch_version = version_in(torch_dir, "version.py")
        transformers_dir = package_dir("transformers")
        return Hello(
            engine="pytorch",
            version=torch_version or "absent",
            build={
                "torch": torch_version or "absent",
                "transformers": version_in(transformers_dir, "__init__.py") or "absent",
                "python": f"{platform.python_implementation()} {platform.python_version()}",
                "lock_sha256": hashlib.sha256(LOCK.read_bytes()).hexdigest(),
                **torch_build(torch_dir),
            },
            capabilities={
                "batching": "static_equal_length",
                "score": True,
                "parallel_score": True,
                "notes": ["after loading, Python's garbage collector is told to skip what exists"],
            },
        )

    @classmethod
    def load(cls, load: Load) -> tuple[PyTorch, Loaded]:
        engine_type = VARIANTS.get(load.variant)
        if engine_type is None:
            raise EngineError("unsupported", f"pytorch has no variant {load.variant!r}")
        precisions = PRECISIONS.get(load.backend)
        if precisions is None:
            raise EngineError("unsupported", f"pytorch has no backend {load.backend!r} here")
        if load.precision not in precisions:
            raise EngineError(
                "unsupported",
                f"pytorch.{load.backend} runs {', '.join(precisions)}, not {load.precision}",
            )
        # Before the import: a file that cannot be loaded should not cost seconds to find out.
        model_dir = Path(load.model_dir)
        config = check_model(model_dir, load.weights)

        torch, llama_type = import_torch()
        configure(torch, load.threads)
        device = device_of(torch, load)
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[load.precision]
        model = load_model(llama_type, model_dir, load.weights, dtype).to(device).eval()
        check_rope(model.config, config)
        engine = engine_type(torch, model, device)
        return engine, Loaded(
            weight_bytes=weight_bytes(model),
            kv_bytes_per_token=kv_bytes_per_token(model.config, dtype.itemsize),
            runtime=runtime(torch, device),
        )

    @classmethod
    def kind_of(cls, error: Exception) -> str:
        out_of_memory = (
            type(error).__name__ == "OutOfMemoryError"
            or "can't allocate memory" in str(error)
            or "out of memory" in str(error)
        )
        return "oom" if out_of_memory else "internal"

    def prefill(self, prompts: list[list[int]]) -> list[int]:
        # The last batch's memory is free before this one's is taken.
        self._cache = self._logits = None
        self._cache = self._new_cache()
        return self._step(prompts)

    def decode(self, tokens: list[int]) -> list[int]:
        return self._step([[token] for token in tokens])

    def opinion(self, row: int, ask: list[int], top: int) -> Opinion:
        return self._opinions(self._logits[row : row + 1], [ask], top)[0]

    def score_parallel(self, ids: list[int], asks: list[list[int]], top: int) -> list[Opinion]:
        torch = self._torch
        self._cache = self._logits = None
        with torch.inference_mode():
            input_ids = torch.tensor([ids], device=self._device)
            output = self._model(input_ids=input_ids, use_cache=False, logits_to_keep=len(asks))
        return self._opinions(output.logits[0], asks, top)

    def _new_cache(self) -> Any:
        from transformers.cache_utils import DynamicCache

        return DynamicCache(config=self._model.config)

    def _step(self, rows: list[list[int]]) -> list[int]:
        """One forward pass. No attention mask: all rows have one length, so nothing is padded,
        and the model makes the causal one by itself."""
        torch = self._torch
        with torch.inference_mode():
            output = self._model(
                input_ids=torch.tensor(rows, device=self._device),
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
            self._logits = output.logits[:, -1]
            # Chosen on the device; `tolist` brings the choice to the host, which waits for it.
            return self._logits.argmax(dim=-1).tolist()

    def _opinions(self, logits: Any, asks: list[list[int]], top: int) -> list[Opinion]:
        """What `positions × vocabulary` logits say, normalised in f64: over a hundred thousand
        terms f32 loses digits that the f32 gate needs. A position at a time, since all of them in
        f64 could be gigabytes."""
        torch = self._torch
        opinions = []
        with torch.inference_mode():
            for position, ask in zip(logits, asks, strict=True):
                logprobs = position.float().cpu().double().log_softmax(dim=-1)
                # A stable sort, because `topk` promises nothing about ties: lowest id first.
                ranked = logprobs.sort(descending=True, stable=True) if top else None
                opinions.append(
                    Opinion(
                        argmax=int(position.argmax()),
                        logprobs=logprobs[ask].tolist() if ask else [],
                        top_ids=ranked.indices[:top].tolist() if ranked else [],
                        top_logprobs=ranked.values[:top].tolist() if ranked else [],
                    )
                )
        return opinions


# By the name in `load.variant`; empty is the plain engine.
VARIANTS: dict[str, type[PyTorch]] = {"": PyTorch}


# ---- hello -------------------------------------------------------------------------------------


def package_dir(name: str) -> Path | None:
    """Where a package is installed, without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def version_in(package: Path | None, file: str) -> str | None:
    """`__version__` as written in one of a package's files."""
    if package is None:
        return None
    found = re.search(r"^__version__ = ['\"](.+)['\"]", (package / file).read_text(), re.MULTILINE)
    return found[1] if found else None


def torch_build(torch_dir: Path | None) -> dict[str, str]:
    """What `torch.__config__` would say of the libraries under it, from the headers it ships."""
    if torch_dir is None:
        return {}
    facts = {}
    version = (torch_dir / "version.py").read_text()
    for name in ("cuda", "git_version"):
        if found := re.search(rf"^{name}(?:: .+?)? = (.+)$", version, re.MULTILINE):
            facts[f"torch_{name}"] = found[1].strip("'\"")
    header = torch_dir / "include" / "ATen" / "Config.h"
    enabled = dict(re.findall(r"#define (AT_\w+)(?:\(\))? ([01])", read_or_empty(header)))
    libraries = {
        "AT_MKL_ENABLED": "mkl",
        "AT_MKLDNN_ENABLED": "onednn",
        "AT_MKLDNN_ACL_ENABLED": "acl",
        "AT_PARALLEL_OPENMP": "openmp",
    }
    facts["torch_libraries"] = " ".join(
        name for define, name in libraries.items() if enabled.get(define) == "1"
    )
    return facts


def read_or_empty(path: Path) -> str:
    """A file's text, or none where there is no file."""
    return path.read_text() if path.is_file() else ""


# ---- Checks before the import ------------------------------------------------------------------


def unusable(path: Path, why: str) -> EngineError:
    """A file of the model that is missing or spoilt."""
    return EngineError("unavailable", f"{path} {why}; fetch the model again (`cargo xtask fetch`)")


def check_model(model_dir: Path, weights: str) -> dict[str, Any]:
    """Find out cheaply what would go wrong later; the model's configuration."""
    config = read_json(model_dir / "config.json")
    if config.get("model_type") != "llama":
        raise EngineError(
            "unsupported",
            f"{model_dir / 'config.json'} says model_type {config.get('model_type')!r}, and this "
            "engine knows `llama` only",
        )
    if weights not in WEIGHTS:
        raise EngineError("unsupported", f"pytorch reads {' or '.join(WEIGHTS)}, not {weights}")
    path = model_dir / weights
    if weights.endswith(".index.json"):
        files = {model_dir / name for name in read_json(path).get("weight_map", {}).values()}
        if not files:
            raise unusable(path, "names no weight files")
    elif (model_dir / WEIGHTS[1]).is_file() and not path.is_file():
        raise unusable(path, "does not exist")
    else:
        files = {path}
    for file in sorted(files):
        check_safetensors(file)
    return config


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise unusable(path, f"cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise unusable(path, f"is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise unusable(path, "holds no JSON object")
    return value


def check_safetensors(path: Path) -> None:
    """Whether the file is as long as its header says. A bit that fell over inside is for the hash
    that `fetch` checks."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            header_bytes = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if header_bytes > size - 8:
                raise unusable(path, f"is cut off or no safetensors file ({size} bytes)")
            header = json.loads(file.read(header_bytes))
        ends = [t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"]
    except OSError as error:
        raise unusable(path, f"cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise unusable(path, "is no safetensors file (its header makes no sense)") from None
    expected = 8 + header_bytes + max(ends, default=0)
    if size != expected:
        raise unusable(path, f"has {size} bytes where its header speaks of {expected}")


# ---- Loading -----------------------------------------------------------------------------------


def import_torch() -> tuple[Any, Any]:
    """torch, and transformers' Llama from its own module: the package's front door and the Auto
    classes would import far more."""
    os.environ.update(ENVIRONMENT)
    try:
        import torch
        from transformers.models.llama.modeling_llama import LlamaForCausalLM
    except (ImportError, OSError) as error:  # OSError: a shared library that cannot be loaded
        raise EngineError(
            "unavailable", f"{sys.executable} cannot import what it needs ({error}): {INSTALL}"
        ) from None
    return torch, LlamaForCausalLM


def configure(torch: Any, threads: int) -> None:
    """Threads and arithmetic."""
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


def load_model(llama_type: Any, model_dir: Path, weights: str, dtype: Any) -> Any:
    """The way a user of transformers loads a local model. Where the file already holds the
    precision asked for, the weights stay mapped from it, unaligned as they lie there, and the first
    request reads them in: its users get that too."""
    try:
        model, info = llama_type.from_pretrained(
            model_dir,
            dtype=dtype,
            attn_implementation="eager",
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:
        if PyTorch.kind_of(error) == "oom" or isinstance(error, MemoryError):
            raise
        raise EngineError(
            "unavailable",
            f"transformers cannot load {model_dir / weights}: {type(error).__name__}: {error}",
        ) from error
    # transformers makes up what is missing and only warns; a model with random layers is no
    # reference.
    for what in ("missing_keys", "mismatched_keys", "unexpected_keys"):
        # Old exports carry tables that are computed from the configuration today.
        names = sorted(name for name in map(str, info[what]) if "rotary_emb" not in name)
        if names:
            why = f"does not fit its config.json: {what.replace('_', ' ')} {', '.join(names[:5])}"
            raise unusable(model_dir / weights, why)
    return model


def check_rope(read: Any, written: dict[str, Any]) -> None:
    """Whether transformers read config.json's RoPE fields, whose names it has changed before: a
    reference that drops them would be wrong without a sign of it."""
    # transformers 5 writes `rope_parameters` where its elders wrote the other two.
    scaling = dict(written.get("rope_scaling") or written.get("rope_parameters") or {})
    # Older files say `type`.
    rope_type = scaling.pop("type", "default")
    theta = written.get("rope_theta", 10000.0)
    wanted = {"rope_type": rope_type, "rope_theta": theta, **scaling}
    found = {name: read.rope_parameters.get(name) for name in wanted}
    if found != wanted:
        raise EngineError(
            "internal", f"config.json's RoPE is {wanted}, but transformers read {found}"
        )


def weight_bytes(model: Any) -> int:
    """Bytes that one decode step reads: every parameter once, whoever else refers to it, without
    an embedding table of its own, of which a step reads one line a row."""
    embedding = model.get_input_embeddings().weight
    tied = embedding is model.get_output_embeddings().weight
    return sum(
        parameter.nbytes
        for parameter in model.parameters()  # yields a tied one once
        if tied or parameter is not embedding
    )


def kv_bytes_per_token(config: Any, value_bytes: int) -> int:
    """Keys and values of all layers for one position."""
    return 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * value_bytes


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


if __name__ == "__main__":
    sys.exit(main(PyTorch))
