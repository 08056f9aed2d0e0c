"""What the adapter changes in the graph that a reader makes, and what it reads from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine import EngineError
from model_config import Config


def set_frequencies(ov: Any, model: Any, config: Config) -> None:
    """Replace the reader's RoPE frequencies by those of the model. The reader knows no scaling, and
    saves the frequencies of f16 files as f16, which is too coarse beyond some hundred positions."""
    import numpy as np

    shape = [1, config.head_dim // 2, 1]
    places = [
        op
        for op in model.get_ops()
        if op.get_type_name() == "Broadcast"
        and (constant := constant_behind(op)) is not None
        and list(constant.get_output_shape(0)) == shape
    ]
    if len(places) != 1:
        raise EngineError("internal", f"the graph has {len(places)} tables of RoPE frequencies")
    values = np.array(config.frequencies, dtype=np.float32).reshape(shape)
    table = ov.opset13.constant(values, dtype=np.float32)
    places[0].input(0).replace_source_output(table.output(0))


def set_angles(ov: Any, model: Any, config: Config, max_context: int) -> None:
    """Replace the cosines and sines that the newer reader's graph computes by tables of the model's
    own RoPE. The graph knows no scaling, and rounds the angles if OpenVINO computes in bf16, which
    is wrong beyond some dozens of positions."""
    import numpy as np

    op = ov.opset13
    ids = model.input("position_ids").get_node().output(0)
    angles = np.outer(np.arange(max_context), np.array(config.frequencies))
    for name, values in (("Cos", np.cos(angles)), ("Sin", np.sin(angles))):
        places = [node for node in model.get_ops() if node.get_type_name() == name]
        if len(places) != 1:
            raise EngineError("internal", f"the graph has {len(places)} operations {name}")
        table = op.constant(values.astype(np.float32))
        rows = op.unsqueeze(op.gather(table, ids, op.constant(0)), op.constant([2]))
        for place in places[0].output(0).get_target_inputs():
            place.replace_source_output(rows.output(0))
    model.validate_nodes_and_infer_types()


def constant_behind(op: Any) -> Any:
    """Return the constant that is an operation's first input, in whatever type it is stored; `None`
    if the input is no constant."""
    source = op.input_value(0).get_node()
    if source.get_type_name() == "Convert":
        source = source.input_value(0).get_node()
    return source if source.get_type_name() == "Constant" else None


def keep_last_position(ov: Any, model: Any) -> None:
    """Compute only the logits of the last position, as GenAI's pipeline does with every model that
    it loads: nothing reads those of a prompt's other positions."""
    product = model.output(0).get_node().input_value(0).get_node()
    if product.get_type_name() != "MatMul":
        raise EngineError("internal", f"logits come from a {product.get_type_name()}")
    op = ov.opset13
    last = op.slice(product.input_value(0), [-1], [2**31 - 1], [1], [1])
    product.input(0).replace_source_output(last.output(0))
    model.validate_nodes_and_infer_types()


def weight_bytes(model: Any) -> int:
    """Bytes that one decode step reads: the constants of matrices, each once however often it is
    used. A separate embedding table is not counted, because a step reads one line of it per row."""
    read = {}
    for op in model.get_ops():
        if op.get_type_name() == "MatMul":
            for constant in constants_of(op.input_value(1).get_node()):
                read[constant.get_friendly_name()] = constant.get_byte_size()
    return sum(read.values())


def constants_of(node: Any) -> Iterator[Any]:
    """Return the constants that a matrix is made of: values, scales and zero points. Empty if the
    matrix is computed from anything else."""
    found, ahead = [], [node]
    while ahead:
        node = ahead.pop()
        if node.get_type_name() == "Constant":
            found.append(node)
        elif node.get_type_name() in ("Convert", "Subtract", "Multiply", "Reshape"):
            ahead += [value.get_node() for value in node.input_values()]
        else:
            return iter(())
    return iter(found)
