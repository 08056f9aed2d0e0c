"""The variant `opt`: the same weights, faster by what eager PyTorch has for that.

transformers loads the model and makes its RoPE table; the forward pass is written out here, with
joined weights (q, k, v; gate, up), PyTorch's fused attention and a key/value cache that is
allocated once. It rounds where transformers rounds. On a GPU, decoding is replayed from CUDA graphs
(graphs.py).

The architectures differ little: a Phi-3's weights are joined as they come, and a Qwen3's queries
and keys are normalised head by head. What would need another forward pass is refused (`unfit`).

There is deliberately no `torch.compile`: on two CPU cores, which other builds shared, it took
83 s to make four layers ready, 37 s from its cache, and every launch would wait for that; on a GPU
the graphs are meant to remove what it would: the time to launch small kernels. Products of f32
matrices on a CPU are left to the library that PyTorch chooses, which is not the fastest on every
processor (products.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import EngineError, Load
from graphs import Graphs
from loading import head_dim
from plain import Plain

# Rotary embeddings whose angles depend on the position alone, and so can be a table.
ROPE_TYPES = ("default", "linear", "llama3", "yarn")


def unfit(model: Any, max_context: int) -> str | None:
    """Return why the forward pass below is not this model's; `None` if it is."""
    config = model.config
    rope = config.rope_parameters
    window = getattr(config, "sliding_window", None)
    if config.hidden_act != "silu":
        return f"hidden_act is {config.hidden_act!r}"
    if any(name.endswith(".bias") for name, _ in model.named_parameters()):
        return "its layers have biases"
    if rope.get("rope_type", "default") not in ROPE_TYPES:
        return f"RoPE is of the type {rope['rope_type']!r}"
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        return "RoPE rotates a part of each head"
    if window is not None and window < max_context:
        return f"it attends to {window} positions, fewer than the {max_context} asked for"
    return None


class Layer(NamedTuple):
    """Weights of a layer, and its part of the cache."""

    attention_norm: Any  # dim
    qkv: Any  # (heads + 2 · kv_heads) · head_dim × dim
    head_norms: Any  # heads + kv_heads × head_dim, or None
    output: Any  # dim × heads · head_dim
    mlp_norm: Any  # dim
    gate_up: Any  # 2 · inner × dim
    down: Any  # dim × inner
    keys: Any  # rows × kv_heads × positions × head_dim
    values: Any  # rows × kv_heads × positions × head_dim


class Optimised(Plain):
    """What lies in the cache beyond the rows and positions of the batch is never looked at."""

    notes = (
        "opt: transformers' weights under a forward pass of our own: fused attention (SDPA), "
        "joined q/k/v and gate/up weights, a key/value cache allocated at load, CUDA graphs for "
        "decoding on a GPU; no torch.compile, which would hold up a launch on the CPU",
    )

    def __init__(self, torch: Any, model: Any, device: Any, load: Load) -> None:
        super().__init__(torch, model, device, load)
        why = unfit(model, load.max_context)
        if why is not None:
            raise EngineError("unsupported", f"pytorch's opt can't run this model: {why}")
        self._model = None  # taken apart below
        config = model.config
        self._heads = config.num_attention_heads
        self._kv_heads = config.num_key_value_heads
        self._head_dim = head_dim(config)
        self._inner = config.intermediate_size
        self._eps = config.rms_norm_eps
        self._position = 0
        self._rows = load.max_batch
        # Attention over a part of the cache wants it aligned on a GPU.
        positions = -(-load.max_context // 64) * 64
        with torch.inference_mode():
            self._cos, self._sin = self._rope_table(model, positions)
            self._norm = model.model.norm.weight.detach().clone()
            self._embedding = model.model.embed_tokens.weight.detach().clone()
            tied = model.model.embed_tokens.weight is model.lm_head.weight
            self._head = self._embedding if tied else model.lm_head.weight.detach().clone()
            self._layers = []
            layers = model.model.layers
            while len(layers):
                self._layers.append(self._take(layers[0], load.max_batch, positions))
                del layers[0]  # otherwise all weights would be in memory twice
        self._graphs = None
        if device.type == "cuda":
            self._graphs = Graphs(torch, device, self.decode_fixed, load.max_batch, positions)
        # The first request should not pay for what libraries set up at first use.
        self.decode(self.prefill([[0] * min(16, load.max_context)] * load.max_batch))

    def prefill(self, prompts: list[list[int]]) -> list[int]:
        self._position = 0
        return self._step(prompts)

    def decode(self, tokens: list[int]) -> list[int]:
        if self._graphs is None:
            return self._step([[token] for token in tokens])
        self._logits, chosen = self._graphs.replay(tokens, self._position)
        self._position += 1
        return chosen.tolist()

    def _hidden_at_end(self, rows: list[list[int]], positions: int) -> Any:
        torch = self._torch
        # Feed as many rows at a time as the cache has.
        parts = [rows[start : start + self._rows] for start in range(0, len(rows), self._rows)]
        hidden = [self._hidden(torch.tensor(part, device=self._device), 0) for part in parts]
        return torch.cat([x[:, -positions:] for x in hidden])

    def _step(self, rows: list[list[int]]) -> list[int]:
        torch = self._torch
        with torch.inference_mode():
            x = self._hidden(torch.tensor(rows, device=self._device), self._position)
            self._logits = self._logits_of(x[:, -1])
            self._position += len(rows[0])
            return self._logits.argmax(dim=-1).tolist()

    def _hidden(self, ids: Any, position: int) -> Any:
        """Feed `rows × tokens` ids through all layers. More than one token per row is supported
        only from position 0."""
        attention = self._torch.nn.functional.scaled_dot_product_attention
        rows, tokens = ids.shape
        end = position + tokens
        cos, sin = self._cos[position:end], self._sin[position:end]
        x = self._torch.nn.functional.embedding(ids, self._embedding)
        for layer in self._layers:
            q, k, v = self._rotated(layer, x, cos, sin)
            keys, values = layer.keys[:rows, :, :end], layer.values[:rows, :, :end]
            keys[:, :, position:].copy_(k.transpose(1, 2))
            values[:, :, position:].copy_(v.transpose(1, 2))
            if tokens == 1:
                # The heads that share keys are passed as if they were positions: nothing is masked
                # at the end of a sequence, and each key is read once for all of them.
                mixed = attention(self._grouped(q), keys, values)
            else:
                mixed = attention(
                    q.transpose(1, 2), keys, values, is_causal=True, enable_gqa=True
                ).transpose(1, 2)
            x = self._after(layer, x, mixed)
        return x

    def decode_fixed(self, ids: Any, position: Any, limit: int) -> tuple[Any, Any]:
        """Return logits and choices of a decode step in which no shape and no address depends on
        `position` (a tensor of one element, below `limit`), so that CUDA graphs can record it."""
        torch = self._torch
        attention = torch.nn.functional.scaled_dot_product_attention
        rows = len(ids)
        cos, sin = self._cos.index_select(0, position), self._sin.index_select(0, position)
        ahead = torch.arange(limit, device=self._device) > position
        mask = torch.zeros(limit, dtype=cos.dtype, device=self._device)
        mask = mask.masked_fill_(ahead, float("-inf"))
        group = self._heads // self._kv_heads
        mask = mask.expand(rows, self._kv_heads, group, limit)
        x = torch.nn.functional.embedding(ids, self._embedding)
        for layer in self._layers:
            q, k, v = self._rotated(layer, x, cos, sin)
            keys, values = layer.keys[:rows], layer.values[:rows]
            keys.index_copy_(2, position, k.transpose(1, 2))
            values.index_copy_(2, position, v.transpose(1, 2))
            mixed = attention(
                self._grouped(q), keys[:, :, :limit], values[:, :, :limit], attn_mask=mask
            )
            x = self._after(layer, x, mixed)
        logits = self._logits_of(x[:, -1])
        return logits, logits.argmax(dim=-1)

    def _rotated(self, layer: Layer, x: Any, cos: Any, sin: Any) -> tuple[Any, Any, Any]:
        """Return queries and keys, rotated by their positions, and values: `rows × tokens × heads ×
        head_dim`."""
        linear = self._torch.nn.functional.linear
        heads, kv_heads = self._heads, self._kv_heads
        qkv = linear(self._normed(x, layer.attention_norm), layer.qkv)
        qkv = qkv.view(*x.shape[:2], heads + 2 * kv_heads, self._head_dim)
        qk = qkv[:, :, : heads + kv_heads]
        if layer.head_norms is not None:
            norm = self._torch.nn.functional.rms_norm
            qk = norm(qk, (self._head_dim,), None, self._eps).mul_(layer.head_norms)
        # transformers' `rotate_half`; the table of sines has its sign.
        qk = (qk * cos).add_(qk.roll(self._head_dim // 2, -1).mul_(sin))
        return qk[:, :, :heads], qk[:, :, heads:], qkv[:, :, heads + kv_heads :]

    def _grouped(self, q: Any) -> Any:
        group = self._heads // self._kv_heads
        return q.reshape(len(q), self._kv_heads, group, self._head_dim)

    def _after(self, layer: Layer, x: Any, mixed: Any) -> Any:
        """Compute what follows attention in a layer."""
        functional = self._torch.nn.functional
        x = x + functional.linear(mixed.reshape(*x.shape[:2], -1), layer.output)
        both = functional.linear(self._normed(x, layer.mlp_norm), layer.gate_up)
        fed = functional.silu(both[..., : self._inner]).mul_(both[..., self._inner :])
        return x + functional.linear(fed, layer.down)

    def _normed(self, x: Any, weight: Any) -> Any:
        # If `rms_norm` got the weight, it would round once where transformers rounds twice.
        return self._torch.nn.functional.rms_norm(x, weight.shape, None, self._eps).mul_(weight)

    def _logits_of(self, x: Any) -> Any:
        return self._torch.nn.functional.linear(self._normed(x, self._norm), self._head)

    def _head_weight(self) -> Any:
        return self._head

    def _rope_table(self, model: Any, positions: int) -> tuple[Any, Any]:
        """Cosines, and sines that are negative in the first half: `positions × 1 × head_dim`."""
        torch = self._torch
        ids = torch.arange(positions, device=self._device)[None]
        cos, sin = model.model.rotary_emb(model.model.norm.weight, ids)
        sin[..., : self._head_dim // 2].neg_()
        return cos[0, :, None].clone(), sin[0, :, None].clone()

    def _take(self, layer: Any, rows: int, positions: int) -> Layer:
        """Copy a layer's weights, joined, out of the file that they may be mapped from."""
        torch = self._torch
        attention, mlp = layer.self_attn, layer.mlp
        weight = layer.input_layernorm.weight

        def cache() -> Any:
            # Zeroing makes the memory resident before the first request.
            shape = (rows, self._kv_heads, positions, self._head_dim)
            return torch.zeros(shape, dtype=weight.dtype, device=weight.device)

        def joined(of: Any, *names: str) -> Any:
            return torch.cat([getattr(of, name).weight.detach() for name in names])

        def head_norms() -> Any:
            if not hasattr(attention, "q_norm"):
                return None
            return torch.cat(
                [
                    attention.q_norm.weight.detach().expand(self._heads, -1),
                    attention.k_norm.weight.detach().expand(self._kv_heads, -1),
                ]
            )

        # A Phi-3's weights are joined already.
        qkv = ["qkv_proj"] if hasattr(attention, "qkv_proj") else ["q_proj", "k_proj", "v_proj"]
        gate_up = ["gate_up_proj"] if hasattr(mlp, "gate_up_proj") else ["gate_proj", "up_proj"]
        return Layer(
            attention_norm=weight.detach().clone(),
            qkv=joined(attention, *qkv),
            head_norms=head_norms(),
            output=joined(attention, "o_proj"),
            mlp_norm=layer.post_attention_layernorm.weight.detach().clone(),
            gate_up=joined(mlp, *gate_up),
            down=joined(mlp, "down_proj"),
            keys=cache(),
            values=cache(),
        )
