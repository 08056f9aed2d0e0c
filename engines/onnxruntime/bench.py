"""`onnxruntime`: a Llama's weights in a graph of ONNX Runtime's own operators, on the CPU.

Users would call onnxruntime-genai, which loads a model that its builder made from a repository. The
adapter makes such a graph from the files that the other engines read (graph.py), and keeps keys and
values in one buffer as GenAI does (session.py).

Run by the harness, or by hand:
`echo '{"prompt_ids":[1,2,3],"precision":"q8_0","model_path":"…/model-q8_0.gguf"}' | python …`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

# The Python engines share the modules of ../pytorch; a module here takes precedence.
sys.path.append(str(Path(__file__).resolve().parent.parent / "pytorch"))

from build_facts import environment, version_of
from engine import EngineError, Hello, Load, Loaded, SessionEngine, check_load, not_importable
from model_config import Config, read_config
from protocol import main

LOCK = Path(__file__).with_name("requirements.lock")
PACKAGES = ("onnxruntime", "onnx", "gguf")
ARCHITECTURES = ("llama", "mistral")
# By precision: the suffix of the weight file.
WEIGHTS = {"f32": ".safetensors", "q8_0": ".gguf"}
WARNING = 2  # the lowest severity that the runtime logs


class OnnxRuntime(SessionEngine):
    """A session of ONNX Runtime and its current batch."""

    @classmethod
    def hello(cls, load: Load) -> Hello:
        versions = {name: version_of(name) for name in PACKAGES}
        return Hello(
            engine="onnxruntime",
            version=versions["onnxruntime"],
            build={**versions, **environment(LOCK)},
            capabilities={
                "batching": "static_equal_length",
                "score": True,
                "parallel_score": False,
                "notes": notes(load.precision),
            },
        )

    @classmethod
    def load(cls, load: Load) -> tuple[OnnxRuntime, Loaded]:
        check_load(load, "onnxruntime", WEIGHTS)
        model_dir = Path(load.model_dir)
        config = read_config(model_dir, load.max_context, ARCHITECTURES)
        path = model_dir / load.weights
        if path.suffix != WEIGHTS[load.precision]:
            raise EngineError(
                "unsupported",
                f"onnxruntime reads {load.precision} from a {WEIGHTS[load.precision]} file, not "
                f"from {load.weights}",
            )
        ort, graph, weights, session = imported()
        made = graph.make(config, weights.read(path), load.max_context)
        running = started(ort, made, load.threads)
        loaded = Loaded(
            weight_bytes=made.weight_bytes,
            kv_bytes_per_token=kv_bytes_per_token(config),
            runtime={"providers": " ".join(running.get_providers()), "kv_cache_precision": "f32"},
        )
        batch = session.Session(
            running, ort.OrtValue.ortvalue_from_numpy, config, load.max_batch, load.max_context
        )
        return cls(batch, config.vocabulary), loaded

    @classmethod
    def kind_of(cls, error: Exception) -> str:
        text = str(error)
        return "oom" if "bad_alloc" in text or "Failed to allocate" in text else "internal"


def imported() -> tuple[Any, Any, Any, Any]:
    """Import ONNX Runtime, and the modules here that need NumPy or onnx."""
    try:
        import onnxruntime

        import graph
        import session
        import weights
    except (ImportError, OSError) as error:  # OSError: a shared library that cannot be loaded
        raise not_importable(error, LOCK) from None
    return onnxruntime, graph, weights, session


def started(ort: Any, made: Any, threads: int) -> Any:
    """Make a session that runs a graph whose weights are given by name."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = WARNING
    values = [ort.OrtValue.ortvalue_from_numpy(value) for value in made.external.values()]
    options.add_external_initializers(list(made.external), values)
    return ort.InferenceSession(made.model, options, providers=["CPUExecutionProvider"])


def notes(precision: str) -> list[str]:
    """What a reader of the numbers must know."""
    said = [
        "the graph is made here, of the operators that onnxruntime-genai's model "
        "builder uses; keys and values stay in one buffer, as f32",
        "of the prompt, logits are computed for the last position alone",
    ]
    if precision == "q8_0":
        said.append(
            "MatMulNBits with 8 bits and accuracy level 4: activations are rounded to 8 bits in "
            "blocks of 32; each scale has 32 bits where the file has 16"
        )
    return said


def kv_bytes_per_token(config: Config) -> int:
    """Bytes of the keys and values of all layers for one position, in f32."""
    return 2 * config.layers * config.kv_heads * config.head_dim * 4


if __name__ == "__main__":
    sys.exit(main(OnnxRuntime))
