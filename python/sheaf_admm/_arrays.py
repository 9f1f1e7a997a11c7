"""What torch and jax share: the inputs of a layer and their shapes."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

# The differentiable inputs of a layer, in the order in which they cross the border.
NAMES = (
    "q",
    "diag",
    "quad",
    "l1",
    "l2",
    "lo",
    "hi",
    "eq_a",
    "eq_b",
    "in_g",
    "in_h",
    "maps",
    "base",
    "a",
    "b",
    "rho",
    "gamma",
    "eta",
    "start",
)

# Inputs that must have a number for every coordinate of every agent of every sample.
FULL = ("diag", "start")


def target_shape(name: str, shape: Sequence[int], q_shape: Sequence[int]) -> tuple:
    """The shape an input is broadcast to before it crosses the border; its own if it is right already."""
    shape, full = tuple(shape), tuple(q_shape)
    if name in FULL:
        return full
    if name in ("l1", "l2", "lo", "hi"):
        return () if len(shape) == 0 else full
    if name == "quad":
        return full + full[-1:]
    if name in ("eq_a", "in_g") and len(shape) >= 2:
        return (*full[:-1], shape[-2], full[-1])
    if name in ("eq_b", "in_h") and len(shape) >= 1:
        return (*full[:-1], shape[-1])
    return shape


def config_of(options: Mapping[str, Any]) -> str:
    """Options as text, for `repr`."""
    return ", ".join(f"{key}={value!r}" for key, value in options.items())
