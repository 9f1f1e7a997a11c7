"""The layer for jax: sheaf ADMM as a function with a gradient of its own (`custom_vjp`), called back on the host.

See `sheaf_admm.torch` for what is computed and for the inputs; the names and shapes are the same. It works under `jit`,
`grad` and `vmap`. The computation runs on the CPU: under a jit for another device, arrays are copied to the host and back.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Optional

import jax
import jax.numpy as jnp
import numpy as np

from ._arrays import NAMES, target_shape
from ._errors import mistake
from ._native import Graph, Layer

__all__ = ["layer", "solve"]


def layer(graph: Graph, d_v: int, d_e: int, iterations: int, **options: Any) -> Layer:
    """The choices of a solve, to be made once; see `sheaf_admm.torch.layer`."""
    return Layer(graph, d_v, d_e, iterations, **options)


def solve(made: Layer, *, index: Optional[Any] = None, scale: Optional[float] = None, **inputs: Any) -> jax.Array:
    """Runs the iterations of a layer and returns the last x, `[batch, agents, d_v]`, or `[window, batch, agents, d_v]`.

    >>> import jax, jax.numpy as jnp, sheaf_admm as sa, sheaf_admm.jax as sj
    >>> made = sj.layer(sa.Graph(2, [(0, 1)]), d_v=1, d_e=1, iterations=100, hard=True, consensus="exact")
    >>> def mean(q):
    ...     return sj.solve(made, q=q, diag=1.0, maps=jnp.ones((1, 1, 1)), rho=1.0).sum()
    >>> q = jnp.array([[[-1.0], [-5.0]]])
    >>> round(jax.jit(mean)(q).item(), 4), jax.grad(mean)(q).round(3).ravel().tolist()
    (6.0, [-1.0, -1.0])
    """
    if inputs.get("q") is None:
        raise mistake("Unsupported", "q", "an array [batch, agents, d_v]", "nothing")
    unknown = sorted(set(inputs) - set(NAMES))
    if unknown:
        raise mistake("Unsupported", "inputs", ", ".join(NAMES), ", ".join(unknown))
    q = jnp.asarray(inputs["q"])
    if q.dtype not in (jnp.float32, jnp.float64):
        raise mistake("Unsupported", "q", "float32 or float64", q.dtype, "convert it with .astype(jnp.float32)")
    arrays = {}
    for name in NAMES:
        value = inputs.get(name)
        if value is None:
            continue
        value = jnp.asarray(value, dtype=q.dtype)
        shape = target_shape(name, value.shape, q.shape)
        if tuple(value.shape) != shape:
            try:
                value = jnp.broadcast_to(value, shape)
            except ValueError:
                raise mistake("Shape", name, f"a shape that broadcasts to {list(shape)}", list(value.shape)) from None
        arrays[name] = (value + jnp.swapaxes(value, -1, -2)) / 2 if name == "quad" else value
    index = None if index is None else jnp.asarray(index, dtype=jnp.int32)
    x = _solver(made, scale)(arrays, index)
    return x[0] if made.window == 1 else x


def _solver(made: Layer, scale: Optional[float]) -> Callable:
    """The function of arrays and index, with its gradient."""

    @jax.custom_vjp
    def run(arrays, index):
        q = arrays["q"]
        shape = jax.ShapeDtypeStruct((made.window, *q.shape), q.dtype)
        return _call(lambda arrays, index: made.forward(_host(arrays, index, scale)), shape, arrays, index)

    def forward(arrays, index):
        return run(arrays, index), (arrays, index)

    def backward(kept, d_x):
        arrays, index = kept
        shapes = {name: jax.ShapeDtypeStruct(value.shape, value.dtype) for name, value in arrays.items()}

        def host(arrays, index, d_x):
            grads = made.backward(_host(arrays, index, scale), np.ascontiguousarray(d_x), list(arrays))
            return {name: grads[name] for name in arrays}

        grads = _call(host, shapes, arrays, index, d_x)
        none = None if index is None else np.zeros(index.shape, dtype=jax.dtypes.float0)
        return grads, none

    run.defvjp(forward, backward)
    return run


def _host(arrays: dict, index: Any, scale: Optional[float]) -> dict:
    """The arrays as numpy's. No function of jax may be called here: the callback runs inside a computation."""
    host = {name: np.asarray(value) for name, value in arrays.items()}
    if index is not None:
        host["index"] = np.asarray(index)
    if scale is not None:
        host["scale"] = scale
    return host


def _call(function: Callable, shapes: Any, *arguments: Any) -> Any:
    """`pure_callback`; under `vmap` sample after sample."""
    # Older versions would pass an unknown keyword on to the function.
    new = "vmap_method" in inspect.signature(jax.pure_callback).parameters
    order = {"vmap_method": "sequential"} if new else {"vectorized": False}
    return jax.pure_callback(function, shapes, *arguments, **order)
