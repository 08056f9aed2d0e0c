"""The baseline: transformers' Llama as it comes, eager attention, plain layers.

All ratios are against it, and it is the reference whose outputs the other engines must match. So it
deliberately does nothing clever: no fused attention, no static cache, no compilation, no CUDA
graphs (opt.py is for these), no `generate()` (its per-token bookkeeping is not the model's), no
joined or quantised layers. What it does choose is written beside the choice.
"""

from __future__ import annotations

from typing import Any

from engine import Engine, Load, Opinion


class Plain(Engine):
    """A loaded model and the batch that runs. Another variant overrides what it does otherwise."""

    # What a reader of the numbers must know.
    notes: tuple[str, ...] = ()

    def __init__(self, torch: Any, model: Any, device: Any, load: Load) -> None:
        self.vocabulary = model.config.vocab_size
        self._torch = torch
        self._model = model
        self._device = device
        self._cache: Any = None
        self._logits: Any = None  # rows × vocabulary, after the last position

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
