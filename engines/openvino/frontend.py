"""OpenVINO's newer reader of GGUF files, its GGUF frontend, which is in preview.

The runtime has it, but neither lists it nor loads it by itself, and GenAI 2026.4.1 has no switch
for it. Here it is registered by hand. A model that it reads has llama.cpp's inputs, and takes and
returns keys and values in every step. `adapt` gives the model the inputs of GenAI's form and
states, as the frontend's passes GGUFMakeStateful and AdaptToGenAI do for programs in C++.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def read(ov: Any, gguf: str) -> Any:
    """The model of a file as the frontend makes it."""
    from openvino.frontend import FrontEndManager

    found = sorted((Path(ov.__file__).parent / "libs").glob("libopenvino_gguf_frontend.*"))
    if not found:
        raise RuntimeError("this OpenVINO has no GGUF frontend")
    manager = FrontEndManager()
    manager.register_front_end("gguf", str(found[0]))
    frontend = manager.load_by_framework("gguf")
    return frontend.convert(frontend.load(gguf))


def adapt(ov: Any, model: Any) -> Any:
    """The same model for one row, with states, GenAI's inputs and the last position's logits."""
    import numpy as np

    op = ov.opset13
    ids, seen, positions = (
        op.parameter([1, -1], dtype=np.int64, name=name)
        for name in ("input_ids", "attention_mask", "position_ids")
    )
    beam = op.parameter([-1], dtype=np.int32, name="beam_idx")
    parameters = [ids, seen, positions, beam]
    for parameter in parameters:
        parameter.output(0).set_names({parameter.get_friendly_name()})

    one = op.constant(np.int64(1))
    first = op.constant(np.int64(0))
    asked = op.gather(op.shape_of(ids), one, first)
    kept = op.gather(op.shape_of(seen), one, first)
    row = op.constant(np.array([1, 1, 1, -1], dtype=np.int64))
    column = op.constant(np.array([1, 1, -1, 1], dtype=np.int64))
    # A position attends to itself and to those before it.
    is_seen = op.less_equal(
        op.reshape(op.range(first, kept, one, "i64"), row, False),
        op.reshape(positions, column, False),
    )
    mask = op.select(is_seen, op.constant(np.float32(0)), op.constant(np.float32(-np.inf)))
    given = {
        "inp_tokens": op.convert(op.reshape(ids, row, False), "i32"),
        "inp_pos": op.convert(op.reshape(positions, row, False), "i32"),
        "inp_out_ids": op.convert(op.reshape(op.subtract(asked, one), row, False), "i32"),
        "self_kq_mask": mask,
    }
    wanted = {parameter.get_friendly_name(): parameter for parameter in model.get_parameters()}
    if missing := given.keys() - wanted.keys():
        raise RuntimeError(f"the frontend's model has no input {min(missing)}")
    for name, value in given.items():
        for place in wanted[name].output(0).get_target_inputs():
            place.replace_source_output(value.output(0))
    states = [
        state(ov, op_of, beam)
        for op_of in model.get_ops()
        if op_of.get_type_name() == "ScatterUpdate"
    ]
    if len(states) != sum(name.startswith("cache_") for name in wanted):
        raise RuntimeError(f"the frontend's model writes {len(states)} of its caches")
    logits = model.output(0).get_node().input_value(0)
    width = logits.get_partial_shape()[-1].get_length()
    shape = op.constant(np.array([1, -1, width], dtype=np.int64))
    result = op.result(op.reshape(logits, shape, False))
    return ov.Model([result], states, parameters, "gguf")


def state(ov: Any, write: Any, beam: Any) -> Any:
    """Replace a cache that is an input, and the operation that writes rows to it, by a state to
    which these rows are appended; return the operation that stores the state. The CPU plugin fuses
    this form with its attention."""
    import numpy as np
    from openvino.op.util import Variable, VariableInfo

    op = ov.opset13
    cache = write.input_value(0).get_node()
    if cache.get_type_name() != "Parameter":
        raise RuntimeError(f"a {cache.get_type_name()} stands where a cache is expected")
    shape = cache.get_output_partial_shape(0)
    heads, width = (shape[axis].get_length() for axis in (2, 3))
    # The rows, before they are flattened for the write.
    lines = write.input_value(2).get_node().input_value(0)
    info = VariableInfo()
    info.data_shape = shape
    info.data_type = cache.get_output_element_type(0)
    info.variable_id = cache.get_friendly_name()
    variable = Variable(info)
    empty = op.constant(np.zeros((1, 0, heads, width), dtype=info.data_type.to_dtype()))
    past = op.gather(op.read_value(empty, variable), beam, op.constant(np.int64(0)))
    grown = op.concat([past, lines], 1)
    for place in write.output(0).get_target_inputs():
        if place.get_node().get_type_name() != "Result":
            place.replace_source_output(grown.output(0))
    return op.assign(grown, variable)
