"""The layer meets arrays of the authors' code. They are read from SHEAF_GOLDENS."""

import json
import os
import struct

import numpy as np
import pytest

import sheaf_admm as sa

FOLDER = os.environ.get("SHEAF_GOLDENS")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="not tested: SHEAF_GOLDENS names no goldens")


def golden(case, part):
    """The arrays of a safetensors file."""
    with open(os.path.join(FOLDER, case, f"{part}.safetensors"), "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    kinds = {"F32": np.float32, "I32": np.int32, "I64": np.int64}
    return {
        name: np.frombuffer(data[slice(*info["data_offsets"])], kinds[info["dtype"]]).reshape(info["shape"])
        for name, info in header.items()
        if name != "__metadata__"
    }


def by_sample(array):
    """[N, B, …] as [B, N, …], contiguous."""
    return np.ascontiguousarray(array.swapaxes(0, 1))


def assert_iterates(got, want):
    """2e-5 of the largest number at the first iteration, growing to 2e-4 at the last."""
    for k, (a, b) in enumerate(zip(got, want)):
        tolerance = 2e-5 * 10 ** (k / max(1, len(want) - 1))
        assert np.abs(a - b).max() <= tolerance * np.abs(b).max(), f"iteration {k}"


def assert_grad(name, got, want, largest):
    norm = np.linalg.norm(want)
    limit = 1e-2 if norm < 1e-4 * largest else 1e-3
    assert np.linalg.norm(got - want) <= limit * norm, name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dense_quadratic_repeats_values_and_gradients(dtype):
    arrays = golden("dense_quadratic", "all")
    graph = sa.Graph.grid(3, 3)
    np.testing.assert_array_equal(graph.edges[:, [0, 2]], arrays["edges"])
    maps = np.zeros((9, 8, 3, 6), dtype=dtype)
    for (u, slot_u, v, slot_v), (first, second) in zip(graph.edges, arrays["base_maps"]):
        maps[u, slot_u], maps[v, slot_v] = first, second
    inputs = dict(
        quad=by_sample(arrays["Q"]),
        q=by_sample(arrays["q"]),
        start=by_sample(arrays["z_init"]),
        rho=arrays["rho"],
        gamma=np.array(2.0),
        maps=maps,
    )
    inputs = {name: value.astype(dtype) for name, value in inputs.items()}
    whole = sa.Layer(graph, 6, 3, 6, relax=1.6, window=6)
    assert_iterates(whole.forward(inputs), arrays["x"].swapaxes(1, 2))
    layer = sa.Layer(graph, 6, 3, 6, relax=1.6, window=2)
    x = layer.forward(inputs)
    np.testing.assert_allclose((x**2).mean(), arrays["loss"], rtol=1e-5)
    grads = layer.backward(inputs, 2 * x / x.size, ["quad", "q", "start", "rho", "maps"])
    d_base = np.array([[grads["maps"][u, a], grads["maps"][v, b]] for u, a, v, b in graph.edges])
    found = {
        "Q": grads["quad"].swapaxes(0, 1),
        "q": grads["q"].swapaxes(0, 1),
        "z_init": grads["start"].swapaxes(0, 1),
        "rho": grads["rho"],
        "base_maps": d_base,
    }
    largest = max(np.linalg.norm(arrays[f"grad/{name}"]) for name in found)
    for name, got in found.items():
        assert_grad(name, got, arrays[f"grad/{name}"], largest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_maze_repeats_every_iterate(dtype):
    encoder, params = golden("maze_sheaf", "encoder"), golden("maze_sheaf", "params")
    base = np.stack([params[f"param/rm/R_{d}"] for d in ("N", "NE", "E", "SE", "S", "SW", "W", "NW")])
    inputs = dict(
        q=by_sample(encoder["enc/q"]),
        diag=by_sample(encoder["enc/q_diag"]),
        l1=by_sample(encoder["enc/l1_weight"]),
        hi=by_sample(encoder["enc/upper"]),
        lo=np.array(0.0),
        start=by_sample(encoder["enc/h"]),
        base=base,
        a=by_sample(encoder["enc/A"]),
        b=by_sample(encoder["enc/B"]),
        rho=encoder["rho"],
        gamma=np.array(5.0),
    )
    inputs = {name: value.astype(dtype) for name, value in inputs.items()}
    want = golden("maze_sheaf", "trace")["x"].swapaxes(1, 2)
    assert_iterates(sa.Layer(sa.Graph.grid(9, 9), 10, 5, 8, window=8).forward(inputs), want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sudoku_repeats_every_iterate(dtype):
    encoder, params = golden("sudoku_sheaf", "encoder"), golden("sudoku_sheaf", "params")
    inputs = dict(
        q=by_sample(encoder["enc/q"]),
        diag=by_sample(encoder["enc/q_diag"]),
        lo=np.array(0.0),
        start=by_sample(encoder["enc/h"]),
        maps=params["param/rm/R_indices"],
        rho=encoder["rho"],
        gamma=np.array(2.0),
    )
    inputs = {name: np.ascontiguousarray(value, dtype=dtype) for name, value in inputs.items()}
    inputs["rho"] = inputs["rho"].reshape(())
    inputs["gamma"], inputs["lo"] = (inputs[name].reshape(()) for name in ("gamma", "lo"))
    want = golden("sudoku_sheaf", "trace")["x"].swapaxes(1, 2)
    assert_iterates(sa.Layer(sa.Graph.sudoku(), 288, 32, 4, window=4).forward(inputs), want)
