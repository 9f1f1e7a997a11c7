"""The layer as an operator of torch: a custom operator from torch 2.4 on, an autograd function below.

An operator of torch takes tensors, numbers and text. Layers are therefore registered under a number, when they are made:
`torch.compile` traces calls, and a call must change nothing. The register does not keep a layer alive; a graph that waits
for its gradient does.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, List, Optional, Sequence

import torch
from torch import Tensor

from ._errors import mistake
from ._native import Layer

_layers: weakref.WeakValueDictionary[int, Numbered] = weakref.WeakValueDictionary()
_numbers = itertools.count()


class Numbered(Layer):
    """A layer with a number, under which it is registered as long as it lives."""

    def __init__(self, *arguments: Any, **options: Any):
        self.last_only = self.window == 1
        self.number = next(_numbers)
        _layers[self.number] = self

    def __reduce__(self):
        return (_made_again, self.__getnewargs_ex__())


def _made_again(arguments: tuple, options: dict) -> Numbered:
    """A copy, under a number of its own."""
    return Numbered(*arguments, **options)


def _layer(number: int) -> Numbered:
    """The layer of a number. Compiled code knows no more of it, and may outlive it."""
    found = _layers.get(number)
    if found is None:
        hint = "keep the layer, or the module that owns it, until the gradients of compiled code are computed"
        raise mistake("Unsupported", "layer", "one that is still there", f"number {number}, which is not", hint)
    return found


def _arrays(names: str, tensors: Sequence[Tensor], index: Optional[Tensor], scale: Optional[float]) -> dict:
    """Contiguous tensors are read where they are."""
    arrays = {name: tensor.detach().contiguous().numpy() for name, tensor in zip(names.split(), tensors)}
    if index is not None:
        arrays["index"] = index.detach().numpy()
    if scale is not None:
        arrays["scale"] = scale
    return arrays


def _forward(
    tensors: Sequence[Tensor], index: Optional[Tensor], number: int, names: str, scale: Optional[float]
) -> Tensor:
    return torch.from_numpy(_layer(number).forward(_arrays(names, tensors, index, scale)))


def _backward(
    d_x: Tensor,
    tensors: Sequence[Tensor],
    index: Optional[Tensor],
    number: int,
    names: str,
    scale: Optional[float],
    wanted: Sequence[bool],
) -> List[Tensor]:
    """The gradients of the wanted tensors, one after another."""
    some = [name for name, want in zip(names.split(), wanted) if want]
    arrays = _arrays(names, tensors, index, scale)
    grads = _layer(number).backward(arrays, d_x.detach().contiguous().numpy(), some)
    return [torch.from_numpy(grads[name]) for name in some]


class _Solve(torch.autograd.Function):
    """The operator for torch below 2.4."""

    @staticmethod
    def forward(ctx, call, index, *tensors):
        ctx.call, ctx.index, ctx.layer = call, index, _layer(call[0])
        ctx.save_for_backward(*tensors)
        return _forward(tensors, index, *call)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_x):
        wanted = ctx.needs_input_grad[2:]
        grads = iter(_backward(d_x, ctx.saved_tensors, ctx.index, *ctx.call, wanted))
        return (None, None, *(next(grads) if want else None for want in wanted))


def _has_custom_op() -> bool:
    return hasattr(getattr(torch, "library", None), "custom_op")


if _has_custom_op():

    @torch.library.custom_op("sheaf_admm::solve", mutates_args=(), device_types="cpu")
    def _solve(
        tensors: List[Tensor], index: Optional[Tensor], number: int, names: str, scale: Optional[float]
    ) -> Tensor:
        return _forward(tensors, index, number, names, scale)

    @_solve.register_fake
    def _(tensors, index, number, names, scale):
        q = tensors[0]
        return q.new_empty((_layer(number).window, *q.shape))

    @torch.library.custom_op("sheaf_admm::solve_backward", mutates_args=(), device_types="cpu")
    def _solve_backward(
        d_x: Tensor,
        tensors: List[Tensor],
        index: Optional[Tensor],
        number: int,
        names: str,
        scale: Optional[float],
        wanted: List[bool],
    ) -> List[Tensor]:
        return _backward(d_x, tensors, index, number, names, scale, wanted)

    @_solve_backward.register_fake
    def _(d_x, tensors, index, number, names, scale, wanted):
        return [torch.empty_like(t, memory_format=torch.contiguous_format) for t, want in zip(tensors, wanted) if want]

    def _setup(ctx, inputs, output):
        tensors, index, *ctx.call = inputs
        ctx.layer, ctx.has_index = _layer(ctx.call[0]), index is not None
        ctx.save_for_backward(*tensors, *([index] if index is not None else []))

    def _reverse(ctx, d_x):
        saved = list(ctx.saved_tensors)
        index = saved.pop() if ctx.has_index else None
        wanted = list(ctx.needs_input_grad[0])
        grads = iter(_solve_backward(d_x, saved, index, *ctx.call, wanted))
        return [next(grads) if want else None for want in wanted], None, None, None, None

    _solve.register_autograd(_reverse, setup_context=_setup)


def apply(
    number: int, names: Sequence[str], tensors: Sequence[Tensor], index: Optional[Tensor], scale: Optional[float]
) -> Tensor:
    """The last x of a registered layer, `[window, batch, agents, d_v]`. The first tensor is q."""
    if _has_custom_op():
        return _solve(list(tensors), index, number, " ".join(names), scale)
    return _Solve.apply((number, " ".join(names), scale), index, *tensors)
