"""The ONNX graph of a Llama, made from a file's weights with the operators that ONNX Runtime
has for language models (`GroupQueryAttention`, `MatMulNBits`, `SkipSimplifiedLayerNormalization`),
as onnxruntime-genai's model builder does.

The weights stay where the file's bytes were unpacked to: the graph names them as external, and
the session is given them by name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto, helper

from model_config import Config
from weights import BLOCK, Quantised, Weights

OPSET = 21
DOMAIN = "com.microsoft"
# The accuracy level of MatMulNBits at which activations are rounded to 8 bits in blocks, as other
# engines do with q8_0.
INT8_ACTIVATIONS = 4


class Graph(NamedTuple):
    """A model, the tensors that it names as external, and the bytes of those that each decode step
    reads whole."""

    model: bytes
    external: dict[str, Any]
    weight_bytes: int


def make(config: Config, weights: Weights, positions: int) -> Graph:
    """The graph for contexts of up to `positions` tokens: `input_ids` (rows × tokens), the keys and
    values of each layer in and out, and `logits` (rows × 1 × vocabulary) of the last position."""
    return Maker(config, weights, positions).make()


class Maker:
    """Collects the nodes and weights of a graph."""

    def __init__(self, config: Config, weights: Weights, positions: int) -> None:
        self.config, self.weights, self.positions = config, weights, positions
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.external: dict[str, Any] = {}
        # The external tensors that each decode step reads whole.
        self.read_by_step: set[str] = set()

    def make(self) -> Graph:
        config = self.config
        cos, sin = rotations(config.frequencies, self.positions)
        self.keep("cos", cos)
        self.keep("sin", sin)
        hidden = self.embed()
        normed = self.node(
            "SimplifiedLayerNormalization",
            [hidden, self.norm("blk.0.attn_norm.weight")],
            axis=-1,
            epsilon=config.epsilon,
        )
        for layer in range(config.layers):
            normed, hidden = self.layer(layer, normed, hidden)
        last = self.node("Gather", [normed, self.constant("last", np.array([-1]))], axis=1)
        output = "output.weight" if "output.weight" in self.weights.tensors else "token_embd.weight"
        self.linear(last, output, named="logits")
        weight_bytes = sum(self.external[name].nbytes for name in self.read_by_step)
        return Graph(self.model().SerializeToString(), self.external, weight_bytes)

    def layer(self, n: int, normed: str, hidden: str) -> tuple[str, str]:
        """Add attention and MLP of layer `n`; return the normalised input of what follows, and the
        residual stream."""
        config, blk = self.config, f"blk.{n}"
        qkv = self.linear(normed, *(f"{blk}.attn_{part}.weight" for part in "qkv"))
        attended = f"{blk}.attended"
        self.nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                # Queries, keys and values come in one tensor.
                [
                    *[qkv, "", ""],
                    *[f"past_key.{n}", f"past_value.{n}"],
                    *["last_index", "length", "cos", "sin"],
                ],
                [attended, f"present_key.{n}", f"present_value.{n}"],
                domain=DOMAIN,
                num_heads=config.heads,
                kv_num_heads=config.kv_heads,
                do_rotary=1,
                rotary_interleaved=int(self.weights.neighbours),
            )
        )
        attended = self.linear(attended, f"{blk}.attn_output.weight")
        normed, hidden = self.add_and_norm(hidden, attended, f"{blk}.ffn_norm.weight")
        both = self.linear(normed, f"{blk}.ffn_gate.weight", f"{blk}.ffn_up.weight")
        gate, up = f"{blk}.gate", f"{blk}.up"
        self.nodes.append(helper.make_node("Split", [both], [gate, up], axis=-1, num_outputs=2))
        open = self.node("Mul", [gate, self.node("Sigmoid", [gate])])
        mlp = self.linear(self.node("Mul", [open, up]), f"{blk}.ffn_down.weight")
        is_last = n + 1 == config.layers
        after = "output_norm.weight" if is_last else f"blk.{n + 1}.attn_norm.weight"
        return self.add_and_norm(hidden, mlp, after)

    def add_and_norm(self, hidden: str, more: str, norm: str) -> tuple[str, str]:
        """Add up two values and normalise the sum; return the norm and the sum."""
        normed, total = f"{norm}.normed", f"{norm}.sum"
        self.nodes.append(
            helper.make_node(
                "SkipSimplifiedLayerNormalization",
                [hidden, more, self.norm(norm)],
                [normed, "", "", total],
                domain=DOMAIN,
                epsilon=self.config.epsilon,
            )
        )
        return normed, total

    def embed(self) -> str:
        """Look up the ids' rows in the embedding table."""
        table = self.weights.tensors["token_embd.weight"]
        if not isinstance(table, Quantised):
            return self.node("Gather", [self.keep("token_embd.weight", table), "input_ids"])
        # If the output matrix is the same tensor, both read the same bytes.
        packed, scales = self.keep_quantised("token_embd.weight", table)
        bytes = self.node("Gather", [packed, "input_ids"])
        values = self.node("Cast", [bytes], to=TensorProto.FLOAT)
        zero = self.constant("zero", np.float32(Quantised.ZERO))
        values = self.node("Sub", [values, zero])
        scale = self.node("Gather", [scales, "input_ids"])
        scale = self.node("Unsqueeze", [scale, self.constant("axis", np.array([-1]))])
        values = self.node("Mul", [values, scale])
        shape = self.constant("shape", np.array([0, 0, self.config.hidden]))
        return self.node("Reshape", [values, shape])

    def linear(self, value: str, *names: str, named: str = "") -> str:
        """Multiply `value` by matrices of the file; several matrices are stacked into one."""
        matrices = [self.weights.tensors[name] for name in names]
        name = "+".join(names)
        if not all(isinstance(matrix, Quantised) for matrix in matrices):
            # MatMul takes inputs × outputs, the file has outputs × inputs.
            matrix = np.concatenate([plain(matrix) for matrix in matrices]).T
            self.read_by_step.add(f"{name}.T")
            return self.node("MatMul", [value, self.keep(f"{name}.T", matrix)], output=named)
        joined = Quantised.joined(matrices)
        self.read_by_step.update([name, f"{name}.scales"])
        outputs, blocks, _ = joined.packed.shape
        return self.node(
            "MatMulNBits",
            [value, *self.keep_quantised(name, joined)],
            DOMAIN,
            named,
            K=blocks * BLOCK,
            N=outputs,
            bits=8,
            block_size=BLOCK,
            accuracy_level=INT8_ACTIVATIONS,
        )

    def node(
        self,
        kind: str,
        inputs: list[str],
        domain: str = "",
        output: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node with one output; return the output's name."""
        output = output or f"{kind}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def norm(self, name: str) -> str:
        self.read_by_step.add(name)
        return self.keep(name, plain(self.weights.tensors[name]))

    def constant(self, name: str, value: Any) -> str:
        """Add a small tensor inside the graph; return its name."""
        tensor = np.asarray(value)
        kind = helper.np_dtype_to_tensor_dtype(tensor.dtype)
        self.initializers.append(helper.make_tensor(name, kind, tensor.shape, tensor.ravel()))
        return name

    def keep_quantised(self, name: str, matrix: Quantised) -> list[str]:
        return [self.keep(name, matrix.packed), self.keep(f"{name}.scales", matrix.scales)]

    def keep(self, name: str, value: Any) -> str:
        """Add a tensor that the session is given by name, once however often it is used."""
        if name in self.external:
            return name
        self.external[name] = value = np.ascontiguousarray(value)
        tensor = TensorProto(
            name=name,
            data_type=helper.np_dtype_to_tensor_dtype(value.dtype),
            dims=value.shape,
            data_location=TensorProto.EXTERNAL,
        )
        tensor.external_data.add(key="location", value="given by name")
        self.initializers.append(tensor)
        return name

    def model(self) -> Any:
        """Make a model of the nodes."""
        config = self.config
        cache = ["rows", config.kv_heads, "positions", config.head_dim]
        inputs = {
            "input_ids": (TensorProto.INT64, ["rows", "tokens"]),
            "last_index": (TensorProto.INT32, ["rows"]),
            "length": (TensorProto.INT32, []),
        }
        outputs = {"logits": (TensorProto.FLOAT, ["rows", 1, config.vocabulary])}
        for n in range(config.layers):
            for part in ("key", "value"):
                inputs[f"past_{part}.{n}"] = (TensorProto.FLOAT, cache)
                outputs[f"present_{part}.{n}"] = (TensorProto.FLOAT, cache)
        of = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "llama",
            [of(name, *shape) for name, shape in inputs.items()],
            [of(name, *shape) for name, shape in outputs.items()],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def rotations(frequencies: list[float], positions: int) -> tuple[Any, Any]:
    """Cosine and sine of each pair's angle at each position (positions × pairs)."""
    angles = np.outer(np.arange(positions), np.array(frequencies, dtype=np.float64))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def plain(value: Any) -> Any:
    """Return a tensor's values, as f32 if it is quantised."""
    return value.values() if isinstance(value, Quantised) else value
