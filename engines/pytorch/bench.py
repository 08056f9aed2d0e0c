"""`pytorch`: transformers' models in PyTorch, in two variants: plain (plain.py), the baseline of
all ratios, and `opt` (opt.py), so that nobody can call the baseline a straw man. An engine that is
the same in another environment derives from this one (../pytorch-newest/newest.py).

Run by the harness, or by hand: `echo '{"prompt":"Hello","model_path":"…"}' | python bench.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import products
from build_facts import environment, package_dir, torch_build, version_in
from engine import Engine, EngineError, Hello, Load, Loaded
from loading import (
    LOCK,
    check_rope,
    configure,
    device_of,
    import_torch,
    kv_bytes_per_token,
    load_model,
    out_of_memory,
    runtime,
    weight_bytes,
)
from model_files import check_model
from opt import Optimised
from plain import Plain
from protocol import main

PRECISIONS = {"cpu": ("f32", "bf16"), "cuda": ("f32", "f16", "bf16")}
# By the name in `load.variant`; empty is the plain engine.
VARIANTS: dict[str, type[Plain]] = {"": Plain, "opt": Optimised}


class PyTorch(Engine):
    """Loads the variant that is asked for; from then on, the variant is the engine."""

    # The engine's id in engines.toml, and the lock file of its environment.
    engine_id = "pytorch"
    lock = LOCK

    @classmethod
    def hello(cls, load: Load) -> Hello:
        """The facts are read from files: importing torch takes seconds, and hello must not wait."""
        torch_dir = package_dir("torch")
        torch_version = version_in(torch_dir, "version.py")
        transformers_dir = package_dir("transformers")
        return Hello(
            engine=cls.engine_id,
            version=torch_version or "absent",
            build={
                "torch": torch_version or "absent",
                "transformers": version_in(transformers_dir, "__init__.py") or "absent",
                **environment(cls.lock),
                **torch_build(torch_dir),
            },
            capabilities={
                "batching": "static_equal_length",
                "score": True,
                "parallel_score": True,
                "notes": notes(load),
            },
        )

    @classmethod
    def load(cls, load: Load) -> tuple[Plain, Loaded]:
        engine_type = VARIANTS.get(load.variant)
        if engine_type is None:
            raise EngineError("unsupported", f"{cls.engine_id} has no variant {load.variant!r}")
        precisions = PRECISIONS.get(load.backend)
        if precisions is None:
            raise EngineError(
                "unsupported", f"{cls.engine_id} has no backend {load.backend!r} here"
            )
        if load.precision not in precisions:
            raise EngineError(
                "unsupported",
                f"{cls.engine_id}.{load.backend} runs {', '.join(precisions)}, "
                f"not {load.precision}",
            )
        # Before the import: a file that cannot be loaded should not cost seconds to find out.
        model_dir = Path(load.model_dir)
        config = check_model(model_dir, load.weights)

        torch, model_class = import_torch(config["model_type"])
        configure(torch, load.threads)
        device = device_of(torch, load)
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[load.precision]
        model = load_model(model_class, model_dir, load.weights, dtype).to(device).eval()
        check_rope(model.config, config)
        loaded = Loaded(
            weight_bytes=weight_bytes(model),
            kv_bytes_per_token=kv_bytes_per_token(model.config, dtype.itemsize),
            runtime=runtime(torch, device),
        )
        return engine_type(torch, model, device, load), loaded

    @classmethod
    def kind_of(cls, error: Exception) -> str:
        return "oom" if out_of_memory(error) else "internal"


def notes(load: Load) -> list[str]:
    """What a reader of the numbers must know."""
    said = ["after loading, Python's garbage collector is told to skip what exists"]
    said += VARIANTS.get(load.variant, Plain).notes
    if (load.backend, load.precision) == ("cpu", "f32"):
        said.append(products.NOTE)
    return said


if __name__ == "__main__":
    sys.exit(main(PyTorch))
