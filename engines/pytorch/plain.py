"""The baseline: transformers' own model with eager attention and plain layers.

All ratios are against it, and it is the reference whose outputs the other engines must match. So it
deliberately does nothing clever: no fused attention, no static cache, no compilation, no CUDA
graphs (opt.py is for these), no `generate()` (its per-token bookkeeping is not the model's), no
joined or quantised layers. Fused attention would be transformers' default (sdpa). What it does
choose is written beside the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine import Engine, Load, Opinion
from products import by_onednn

# Logits that exist at one time when several positions are scored. Each product reads the whole output
# head, 1 GB of f32 for a model of 1 B parameters, so few positions at a time take the time of many: of
# 84 scores there, the head took 35 s with 2^21 logits at a time, and takes 7 s with these.
LOGITS_AT_ONCE = 1 << 25


class Plain(Engine):
    """A loaded model and its current batch. A variant overrides what it does differently."""

    # What a reader of the numbers must know.
    notes: tuple[str, ...] = (
        "eager attention, for a deliberately plain baseline: transformers' own default is "
        "PyTorch's fused attention (sdpa), which the variant opt has",
    )

    def __init__(self, torch: Any, model: Any, device: Any, load: Load) -> None:
        self.vocabulary = model.config.vocab_size
        self._torch = torch
        self._model = model
        self._device = device
        self._cache: Any = None
        self._logits: Any = None  # rows × vocabulary, after the last position

    def prefill(self, prompts: list[list[int]]) -> list[int]:
        # Free the last batch's memory before this batch allocates.
        self._cache = self._logits = None
        self._cache = self._new_cache()
        return self._step(prompts)

    def decode(self, tokens: list[int]) -> list[int]:
        return self._step([[token] for token in tokens])

    def opinion(self, row: int, ask: list[int], top: int) -> Opinion:
        return self._opinions(self._logits[row : row + 1], [ask], top)[0]

    def score_parallel(
        self, rows: list[list[int]], asks: list[list[list[int]]], top: int
    ) -> list[list[Opinion]]:
        torch = self._torch
        positions = len(asks[0])
        flat = [ask for of_row in asks for ask in of_row]
        # Logits are many times as large as the hidden states they come from, so they are never
        # computed all at once.
        step = max(1, LOGITS_AT_ONCE // self.vocabulary)
        opinions: list[Opinion] = []
        with torch.inference_mode(), by_onednn(torch, self._head_weight()):
            hidden = self._hidden_at_end(rows, positions).flatten(0, 1)
            for start in range(0, len(flat), step):
                logits = self._logits_of(hidden[start : start + step])
                opinions += self._opinions(logits, flat[start : start + step], top)
        return [opinions[start : start + positions] for start in range(0, len(flat), positions)]

    def _hidden_at_end(self, rows: list[list[int]], positions: int) -> Any:
        """Return the last layer's output at the last positions of `rows`, which are fed in one
        pass. What several rows have before these positions is fed once, in a pass of its own."""
        self._cache = self._logits = None
        before = [tuple(row[:-positions]) for row in rows]
        distinct = list(dict.fromkeys(before))
        if len(distinct) == len(rows) or not before[0]:
            return self._hidden_states(rows, None)[:, -positions:]
        cache = self._new_cache()
        self._hidden_states(distinct, cache)
        which = [distinct.index(prompt) for prompt in before]
        cache.batch_select_indices(self._torch.tensor(which, device=self._device))
        return self._hidden_states([row[-positions:] for row in rows], cache)

    def _hidden_states(self, rows: Sequence[Sequence[int]], cache: Any) -> Any:
        output = self._model.model(
            input_ids=self._torch.tensor(rows, device=self._device),
            past_key_values=cache,
            use_cache=cache is not None,
        )
        return output.last_hidden_state

    def _logits_of(self, hidden: Any) -> Any:
        return self._model.lm_head(hidden)

    def _head_weight(self) -> Any:
        return self._model.lm_head.weight

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
        """Return the opinions given by `positions × vocabulary` logits, normalised in f64: over a
        hundred thousand terms, f32 loses digits that the gate's f32 limit needs."""
        torch = self._torch
        with torch.inference_mode():
            best = logits.argmax(dim=-1, keepdim=True)
            logprobs = logits.float().cpu().double().log_softmax(dim=-1)
            # On a tie the lowest id comes first: a stable sort ensures that, `topk` promises
            # nothing. The single best id needs no sort, because `argmax` promises the first of
            # equals.
            order = best.cpu()
            if top > 1:
                order = logprobs.sort(dim=-1, descending=True, stable=True).indices
            order = order[:, :top]
            ranked = logprobs.gather(1, order)
            places = [position for position, ask in enumerate(asks) for _ in ask]
            asked = iter(logprobs[places, [id for ask in asks for id in ask]].tolist())
            return [
                Opinion(argmax, [next(asked) for _ in ask], top_ids, top_logprobs)
                for (argmax,), ask, top_ids, top_logprobs in zip(
                    best.tolist(), asks, order.tolist(), ranked.tolist(), strict=True
                )
            ]
