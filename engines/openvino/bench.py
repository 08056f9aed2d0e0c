"""`openvino`: models in GGUF as OpenVINO GenAI reads them, executed by the OpenVINO runtime.

GenAI's reader makes OpenVINO's own form of a model (conversion.py), the adapter mends and trims it
(graph.py), and the CPU plugin runs it with a key/value cache that it keeps itself. In the variant
`frontend`, OpenVINO's newer reader makes that form (frontend.py). GenAI's pipelines are not used:
they don't report log-probabilities of forced tokens, and the gate must check the code that is
timed.

Run by the harness, or by hand:
`echo '{"prompt_ids":[1,2,3],"precision":"q8_0","model_path":"…/model-q8_0.gguf"}' | python …`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

# The Python engines share the modules of ../pytorch; a module here takes precedence.
sys.path.append(str(Path(__file__).resolve().parent.parent / "pytorch"))

from build_facts import environment, version_of
from conversion import converted
from engine import EngineError, Hello, Load, Loaded, SessionEngine, check_load, not_importable
from graph import keep_last_position, set_angles, set_frequencies, weight_bytes
from model_config import Config, read_config
from protocol import main
from session import Session

# In GGUF, a Mistral is a `llama`. GenAI's reader has none of our other architectures.
ARCHITECTURES = ("llama", "mistral", "qwen3")
LOCK = Path(__file__).with_name("requirements.lock")
PACKAGES = ("openvino", "openvino-genai", "openvino-tokenizers")
# By precision: the file, and the type that OpenVINO computes in; `None` lets OpenVINO choose.
WEIGHTS = {"q8_0": "model-q8_0.gguf", "bf16": "model-f16.gguf", "f16": "model-f16.gguf"}
COMPUTED_IN = {"q8_0": None, "bf16": "bf16", "f16": "f16"}
# The capability that a processor must have for OpenVINO to compute in a type.
CAPABILITIES = {"bf16": "BF16", "f16": "FP16"}


class OpenVino(SessionEngine):
    """A compiled model and its current batch."""

    @classmethod
    def hello(cls, load: Load) -> Hello:
        """The versions come from the packages' metadata: importing OpenVINO takes a second."""
        versions = {name: version_of(name) for name in PACKAGES}
        return Hello(
            engine="openvino",
            version=versions["openvino-genai"],
            build={
                **versions,
                **environment(LOCK),
            },
            capabilities={
                # The newer reader's graph supports one row.
                "batching": "none" if load.variant == "frontend" else "static_equal_length",
                "score": True,
                "parallel_score": False,
                "notes": notes(load.precision, load.variant),
            },
        )

    @classmethod
    def load(cls, load: Load) -> tuple[OpenVino, Loaded]:
        if load.variant == "frontend":
            check_load(load._replace(variant=""), "openvino+frontend", ["q8_0"])
        else:
            check_load(load, "openvino", WEIGHTS)
        model_dir = Path(load.model_dir)
        config = read_config(model_dir, load.max_context, ARCHITECTURES)
        ov = import_openvino()
        core = ov.Core()
        computed_in = type_for(core, load.precision)
        model = core.read_model(converted(model_dir, load.weights, load.variant))
        if load.variant:
            set_angles(ov, model, config, load.max_context)
        else:
            set_frequencies(ov, model, config)
            keep_last_position(ov, model)
        properties: dict[str, Any] = {"INFERENCE_NUM_THREADS": load.threads}
        if computed_in is not None:
            properties["INFERENCE_PRECISION_HINT"] = computed_in
        compiled = core.compile_model(model, "CPU", properties)
        loaded = Loaded(
            weight_bytes=weight_bytes(model),
            kv_bytes_per_token=kv_bytes_per_token(compiled, config),
            runtime=runtime(core, compiled),
        )
        return cls(Session(compiled, load.max_batch, load.max_context), config.vocabulary), loaded

    @classmethod
    def kind_of(cls, error: Exception) -> str:
        return "oom" if "bad_alloc" in str(error) else "internal"


def import_openvino() -> Any:
    """Import the runtime; GenAI is needed only for a conversion."""
    # One variable limits the instructions of oneDNN's kernels, another those of OpenVINO's own.
    # OpenVINO says to set both alike; the harness sets oneDNN's.
    if level := os.environ.get("ONEDNN_MAX_CPU_ISA"):
        os.environ.setdefault("OV_CPU_MAX_ISA", level)
    try:
        import openvino
    except (ImportError, OSError) as error:  # OSError: a shared library that cannot be loaded
        raise not_importable(error, LOCK) from None
    return openvino


def type_for(core: Any, precision: str) -> str | None:
    """Return the type that OpenVINO is told to compute in. It would silently replace a type that
    the processor lacks: bf16 is refused then, and f16 weights are computed with in f32, as
    llama.cpp does."""
    wanted = COMPUTED_IN[precision]
    if wanted is None or CAPABILITIES[wanted] in core.get_property(
        "CPU", "OPTIMIZATION_CAPABILITIES"
    ):
        return wanted
    if wanted == "bf16":
        raise EngineError("unavailable", "this processor has no bf16 that OpenVINO could use")
    return "f32"


def notes(precision: str, reader: str) -> list[str]:
    """What a reader of the numbers must know."""
    made_by = {
        "": "GenAI's GGUF reader",
        "frontend": "OpenVINO's newer GGUF reader, its GGUF frontend (a preview),",
    }
    said = [
        f"{made_by.get(reader, reader)} makes OpenVINO's form of the model, which the first load "
        "includes; token ids go to the OpenVINO runtime, not through GenAI's pipeline",
        "of the prompt, logits are computed for the last position alone, as GenAI's pipeline does",
    ]
    if reader == "frontend":
        said.append(
            "GenAI 2026.4.1 has no switch for this reader: it refuses the property GGUF_READER of "
            "its newer guide, and ignores a variable of that name. The adapter registers the "
            "frontend in the runtime, and gives its graph GenAI's inputs and states for keys and "
            "values, as OpenVINO's own passes for that do in C++; one row at a time, which is what "
            "it makes"
        )
        said.append(
            "mended: this reader leaves out Llama 3's RoPE scaling too, and in bf16 its graph "
            "rounds the angles, which is wrong beyond some dozens of positions; the adapter puts "
            "tables of the cosines and sines of config.json's frequencies into the graph"
        )
    else:
        said.append(
            "mended: the reader leaves out Llama 3's RoPE scaling and saves the frequencies of f16 "
            "files as f16; the adapter puts those of config.json into the graph, as f32"
        )
    if precision == "q8_0":
        said.append(
            "OpenVINO's defaults: activations are rounded to 8 bits in groups of 32, keys and "
            "values to 8 bits, and the rest is bf16 where the processor has it (see the build's "
            "inference_precision)"
        )
    if precision == "q8_0" and not reader:
        said.append(
            "a new inference request, made within the prefill that is timed, wherever the number of "
            "rows changes, because one that is used "
            "again with more rows may give logits that are no numbers where keys and values have "
            "8 bits (OpenVINO 2026.4.1)"
        )
    if precision == "f16":
        said.append("f16 weights; computed in f32 where the processor has no f16")
    if precision == "bf16":
        said.append("weights are read from the f16 file, because the reader takes no bf16")
    return said


def kv_bytes_per_token(compiled: Any, config: Config) -> int:
    """Bytes of the keys and values of all layers for one position, as the plugin stores them."""
    vectors = 2 * config.layers * config.kv_heads
    size = compiled.get_property("KV_CACHE_PRECISION").size
    # Each vector of 8-bit values has a scale and a zero point in f32.
    return vectors * (config.head_dim * size + (8 if size == 1 else 0))


def runtime(core: Any, compiled: Any) -> dict[str, str]:
    """What OpenVINO says of itself on this machine."""
    names = {
        "threads": "INFERENCE_NUM_THREADS",
        "inference_precision": "INFERENCE_PRECISION_HINT",
        "kv_cache_precision": "KV_CACHE_PRECISION",
        "dynamic_quantization_group": "DYNAMIC_QUANTIZATION_GROUP_SIZE",
        "performance_hint": "PERFORMANCE_HINT",
        "isa": "RUNTIME_REQUIREMENTS",
    }
    facts = {name: said(compiled.get_property(of)) for name, of in names.items()}
    facts["capabilities"] = " ".join(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"))
    return facts


def said(value: Any) -> str:
    """A property's value in words: types have a name of their own."""
    return value.get_type_name() if hasattr(value, "get_type_name") else str(value)


if __name__ == "__main__":
    sys.exit(main(OpenVino))
