"""`mistralrs-wheel`: mistral.rs as its newest release comes, the Python wheel.

The newest crate is 0.8.1, which `mistralrs` measures; later releases are a wheel and a git
repository. Token ids go in and come out through a tokenizer that the adapter makes
(id_tokenizer.py); mistral.rs' own loop decides which token is next, and when.

Run by the harness, or by hand:
`echo '{"prompt_ids":[1,2,3],"precision":"q8_0","model_path":"…/model-q8_0.gguf"}' | python …`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The Python engines share the modules of ../pytorch; a module here takes precedence.
sys.path.append(str(Path(__file__).resolve().parent.parent / "pytorch"))

from build_facts import environment, version_of
from engine import Engine, EngineError, Hello, Load, Loaded, Opinion, not_importable
from id_tokenizer import IdTokenizer
from model_files import read_json
from protocol import main
from weights import decode_bytes

LOCK = Path(__file__).with_name("requirements.lock")
# A prompt is a message of a chat, and nothing is put around it.
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
# By variant and precision: whether the weights are a GGUF file, and the quantisation applied to
# them while loading.
RUNS = {
    ("", "f32"): (False, None),
    ("", "q8_0"): (True, None),
    ("", "q4_k_m"): (True, None),
    ("isq", "q8_0"): (False, "Q8_0"),
}


class MistralRs(Engine):
    """A runner of mistral.rs, which gets one request at a time."""

    def __init__(self, runner: Any, tokenizer: IdTokenizer, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self._runner = runner
        self._tokenizer = tokenizer

    @classmethod
    def hello(cls, load: Load) -> Hello:
        """The version comes from the package's metadata: importing the wheel takes a while."""
        return Hello(
            engine="mistralrs-wheel",
            version=version_of("mistralrs"),
            build=environment(LOCK),
            capabilities={
                "batching": "none",
                "score": True,
                "parallel_score": False,
                "notes": notes(load),
            },
        )

    @classmethod
    def load(cls, load: Load) -> tuple[MistralRs, Loaded]:
        if load.backend != "cpu":
            raise EngineError("unsupported", f"the wheel has no backend {load.backend!r} here")
        if (load.variant, load.precision) not in RUNS:
            known = ", ".join("+".join(filter(None, run)) for run in RUNS)
            raise EngineError(
                "unsupported",
                f"mistralrs-wheel runs {known}, not {load.precision} of variant {load.variant!r}",
            )
        is_gguf, quantise = RUNS[load.variant, load.precision]
        directory = Path(load.model_dir)
        config = read_json(directory / "config.json")
        weight_bytes = decode_bytes(directory, load.weights, is_gguf, quantise is not None)
        tokenizer = IdTokenizer.of_model(directory / "tokenizer.json")
        # mistral.rs reads these variables when it first needs them. Its default for keys and values
        # on the CPU is f16, which is not f32.
        os.environ["RAYON_NUM_THREADS"] = str(load.threads)
        if load.precision == "f32":
            os.environ["MISTRALRS_CPU_KV_F32"] = "1"
        runner = open_runner(directory / load.weights, tokenizer, quantise)
        loaded = Loaded(
            weight_bytes=weight_bytes,
            kv_bytes_per_token=kv_bytes_per_token(config, load.precision),
            runtime={},
        )
        return cls(runner, tokenizer, config["vocab_size"]), loaded

    @classmethod
    def kind_of(cls, error: Exception) -> str:
        return "oom" if "out of memory" in str(error).lower() else "internal"

    def generate(self, prompts: list[list[int]], new_tokens: int) -> Iterator[list[int]]:
        request = self._request(prompts[0], new_tokens, stream=True)
        for chunk in self._ask(request):
            yield [self._tokenizer.id(chunk.choices[0].delta.content)]

    def score(self, ids: list[int], asks: list[list[int]], top: int) -> list[Opinion]:
        """Score with the decode steps that are timed, which also report log-probabilities. The
        wheel can't be told which token comes next: if it chooses another one than `ids` has, a new
        request continues from there with a prefill."""
        opinions: list[Opinion] = []
        start = len(ids) - len(asks) + 1
        while (done := len(opinions)) < len(asks):
            request = self._request(
                ids[: start + done],
                len(asks) - done,
                stream=True,
                logprobs=True,
                top_logprobs=self.vocabulary,
            )
            for chunk in self._ask(request):
                said = chunk.choices[0].logprobs.top_logprobs
                logprobs = {entry.token: entry.logprob for entry in said}
                opinions.append(opinion_of(logprobs, asks[len(opinions)], top))
                chosen = self._tokenizer.id(chunk.choices[0].delta.content)
                if [chosen] != ids[start + len(opinions) - 1 :][:1]:
                    break  # the rest is not read, so mistral.rs ends the request
        return opinions

    def _request(self, ids: list[int], new_tokens: int, **more: Any) -> Any:
        return import_mistralrs().ChatCompletionRequest(
            messages=self._tokenizer.text(ids),
            model="default",
            max_tokens=new_tokens,
            temperature=0.0,
            ignore_eos=True,
            **more,
        )

    def _ask(self, request: Any) -> Any:
        try:
            return self._runner.send_chat_completion_request(request)
        except ValueError as error:  # with a trace of the stack under the first line
            raise EngineError(self.kind_of(error), str(error).split("\n", 1)[0]) from None


def opinion_of(logprobs: dict[int, float], ask: list[int], top: int) -> Opinion:
    """Return the opinion given by log-probabilities of the whole vocabulary."""
    # The lowest id wins a tie.
    ranked = sorted(logprobs, key=lambda id: (-logprobs[id], id))
    return Opinion(
        argmax=ranked[0],
        logprobs=[logprobs[id] for id in ask],
        top_ids=ranked[:top],
        top_logprobs=[logprobs[id] for id in ranked[:top]],
    )


def import_mistralrs() -> Any:
    """Import the wheel."""
    try:
        import mistralrs
    except (ImportError, OSError) as error:  # OSError: a shared library that cannot be loaded
        raise not_importable(error, LOCK) from None
    return mistralrs


def open_runner(weights: Path, tokenizer: IdTokenizer, quantise: str | None) -> Any:
    """Make a runner of one request at a time; its prompts and answers are ids in `tokenizer`."""
    mistralrs = import_mistralrs()
    with tempfile.TemporaryDirectory() as made:
        paths = Path(made)
        tokenizer.write(paths / "tokenizer.json")
        (paths / "template.jinja").write_text(TEMPLATE)
        return mistralrs.Runner(
            select(mistralrs, weights, paths / "tokenizer.json"),
            max_seqs=1,
            prefix_cache_n=0,
            token_source="none",
            jinja_explicit=str(paths / "template.jinja"),
            in_situ_quant=quantise,
        )


def select(mistralrs: Any, weights: Path, tokenizer: Path) -> Any:
    """Say which weights mistral.rs is to load, from their directory alone."""
    directory = str(weights.parent)
    if weights.suffix == ".gguf":
        return mistralrs.Which.GGUF(
            quantized_model_id=directory,
            quantized_filename=weights.name,
            tok_model_id=directory,
            tokenizer_json=str(tokenizer),
        )
    return mistralrs.Which.Plain(
        model_id=directory,
        tokenizer_json=str(tokenizer),
        dtype=mistralrs.ModelDType.F32,
    )


def kv_bytes_per_token(config: dict[str, Any], precision: str) -> int:
    """Bytes of the keys and values of all layers for one position."""
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config.get("num_key_value_heads") or heads
    element_bytes = 4 if precision == "f32" else 2
    return 2 * config["num_hidden_layers"] * kv_heads * head_dim * element_bytes


def notes(load: Load) -> list[str]:
    """What a reader of the numbers must know."""
    said = [
        "The newest release of mistral.rs, which is not on the crate registry: a Rust project can "
        "depend on its git repository. The wheel is built for any x86-64 processor of its class, "
        "not for this one.",
        "Token ids go in and come out through a tokenizer that the adapter makes of the model's "
        "vocabulary, as part of loading. The time to first token includes joining a prompt's "
        "pieces, the wheel's chat template and its encoding. A token's time is when Python has it "
        "from the stream.",
        "One request at a time, held back by the adapter in all number formats. With quantised "
        "weights, from a GGUF file or by ISQ, 0.9.5 fails on a prefill of several prompts on the "
        "CPU (`input tensor is not contiguous`). In f32 it doesn't: four prompts at once gave the "
        "tokens that each gave alone, eight times, on tiny-llama. What concurrent requests would "
        "gain there is not measured.",
        "Prefix cache off.",
        "Keys and values are f32, by MISTRALRS_CPU_KV_F32=1: mistral.rs' own choice, f16, does not "
        "pass the gate's limits of f32."
        if load.precision == "f32"
        else "Keys and values are f16, mistral.rs' own choice on the CPU.",
    ]
    if load.variant == "isq":
        said.append("Quantised in place from safetensors while loading (ISQ).")
    return said


if __name__ == "__main__":
    sys.exit(main(MistralRs))
