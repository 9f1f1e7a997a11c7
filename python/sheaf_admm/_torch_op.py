"""The layer as an operator of torch: a custom operator from torch 2.4 on, an autograd function below.

An operator of torch takes tensors and numbers. Layers are therefore registered under a number, with the names of the tensors
that a call passes.
"""

from __future__ import annotations

import threading
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._native import Layer


class Entry(NamedTuple):
    """A layer and the inputs of its calls."""

    layer: Layer
    names: Tuple[str, ...]
    scale: Optional[float]


_entries: List[Entry] = []
_numbers: Dict[tuple, int] = {}
_lock = threading.Lock()


def register(layer: Layer, names: Tuple[str, ...], scale: Optional[float]) -> int:
    """The number of a layer with these inputs. A layer stays registered as long as the process lives."""
    key = (id(layer), names, scale)
    with _lock:
        number = _numbers.get(key)
        if number is None:
            number = len(_entries)
            _entries.append(Entry(layer, names, scale))
            _numbers[key] = number
        return number


def _arrays(entry: Entry, tensors: Sequence[Tensor], index: Optional[Tensor]) -> dict:
    """Contiguous tensors are read where they are."""
    arrays = {name: tensor.detach().contiguous().numpy() for name, tensor in zip(entry.names, tensors)}
    if index is not None:
        arrays["index"] = index.detach().numpy()
    if entry.scale is not None:
        arrays["scale"] = entry.scale
    return arrays


def _forward(tensors: Sequence[Tensor], index: Optional[Tensor], number: int) -> Tensor:
    entry = _entries[number]
    return torch.from_numpy(entry.layer.forward(_arrays(entry, tensors, index)))


def _backward(
    d_x: Tensor, tensors: Sequence[Tensor], index: Optional[Tensor], number: int, wanted: Sequence[bool]
) -> List[Tensor]:
    """The gradients of the wanted tensors, one after another."""
    entry = _entries[number]
    names = [name for name, want in zip(entry.names, wanted) if want]
    arrays = _arrays(entry, tensors, index)
    grads = entry.layer.backward(arrays, d_x.detach().contiguous().numpy(), names)
    return [torch.from_numpy(grads[name]) for name in names]


class _Solve(torch.autograd.Function):
    """The operator for torch below 2.4."""

    @staticmethod
    def forward(ctx, number, index, *tensors):
        ctx.number, ctx.index = number, index
        ctx.save_for_backward(*tensors)
        return _forward(tensors, index, number)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_x):
        wanted = ctx.needs_input_grad[2:]
        grads = iter(_backward(d_x, ctx.saved_tensors, ctx.index, ctx.number, wanted))
        return (None, None, *(next(grads) if want else None for want in wanted))


def _has_custom_op() -> bool:
    return hasattr(getattr(torch, "library", None), "custom_op")


if _has_custom_op():

    @torch.library.custom_op("sheaf_admm::solve", mutates_args=(), device_types="cpu")
    def _solve(tensors: List[Tensor], index: Optional[Tensor], number: int) -> Tensor:
        return _forward(tensors, index, number)

    @_solve.register_fake
    def _(tensors, index, number):
        q = tensors[0]
        return q.new_empty((_entries[number].layer.window, *q.shape))

    @torch.library.custom_op("sheaf_admm::solve_backward", mutates_args=(), device_types="cpu")
    def _solve_backward(
        d_x: Tensor, tensors: List[Tensor], index: Optional[Tensor], number: int, wanted: List[bool]
    ) -> List[Tensor]:
        return _backward(d_x, tensors, index, number, wanted)

    @_solve_backward.register_fake
    def _(d_x, tensors, index, number, wanted):
        return [torch.empty_like(t, memory_format=torch.contiguous_format) for t, want in zip(tensors, wanted) if want]

    def _setup(ctx, inputs, output):
        tensors, index, ctx.number = inputs
        ctx.count, ctx.has_index = len(tensors), index is not None
        ctx.save_for_backward(*tensors, *([index] if index is not None else []))

    def _reverse(ctx, d_x):
        saved = list(ctx.saved_tensors)
        index = saved.pop() if ctx.has_index else None
        wanted = list(ctx.needs_input_grad[0])
        grads = iter(_solve_backward(d_x, saved, index, ctx.number, wanted))
        return [next(grads) if want else None for want in wanted], None, None

    _solve.register_autograd(_reverse, setup_context=_setup)


def apply(number: int, tensors: Sequence[Tensor], index: Optional[Tensor]) -> Tensor:
    """The last x of a registered layer, `[window, batch, agents, d_v]`. The first tensor is q."""
    if _has_custom_op():
        return _solve(list(tensors), index, number)
    return _Solve.apply(number, index, *tensors)
