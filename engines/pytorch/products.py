"""Products of f32 matrices on a CPU by oneDNN, for scores that nobody times.

PyTorch gives them to MKL, which has no AVX-512 for processors that are not Intel's: on an EPYC
(Zen 5) a batch of scores took 1.75 times as much CPU time. What is timed keeps PyTorch's own
choice, which is what its users get.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

# What a reader of timed f32 numbers must know.
NOTE = (
    "f32 products on a processor are left to PyTorch's own choice, on x86-64 MKL, which has no "
    "AVX-512 for processors that are not Intel's; oneDNN, to which eager PyTorch has no public "
    "switch, took 1/1.75 of the CPU time for a batch of scores on an EPYC (Zen 5), and only scores "
    "that nobody times use it"
)


def by_onednn(torch: Any, weight: Any) -> AbstractContextManager:
    """Return a context in which `linear` runs on oneDNN if `weight`, one of the model's, is f32 on
    a CPU."""
    usable = torch.backends.mkldnn.is_available()
    if not usable or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return nullcontext()
    linear = torch.nn.functional.linear
    # What torch.compile makes of `linear` on a CPU; eager PyTorch has no public name for it.
    product = torch.ops.mkldnn._linear_pointwise

    class ByOneDnn(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
        ) -> Any:
            if function is linear and not kwargs:
                input, weight, *bias = args
                return product(input, weight, bias[0] if bias else None, "none", [], "")
            return function(*args, **(kwargs or {}))

    return ByOneDnn()
