"""The layer for jax."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import sheaf_admm as sa  # noqa: E402
import sheaf_admm.jax as sj  # noqa: E402
from test_layer import GRAPH, MAPS, SIZES, problem  # noqa: E402


def split(**options):
    arrays = problem(**options)
    return {k: v for k, v in arrays.items() if k != "index"}, arrays.get("index")


@pytest.mark.parametrize("maps", MAPS)
def test_gradients(maps):
    arrays, index = split(samples=2, maps=maps, seed=1)
    made = sj.layer(GRAPH, **SIZES, iterations=3)
    solve = lambda a: sj.solve(made, index=index, **a)
    # Small steps, so that no coordinate crosses a kink.
    check_grads(solve, (arrays,), order=1, modes=["rev"], atol=1e-5, rtol=1e-5, eps=1e-6)


def test_values_under_jit_are_those_of_the_layer_on_arrays():
    arrays, index = split(maps="index", seed=2)
    made = sj.layer(GRAPH, **SIZES, iterations=5)
    call = jax.jit(lambda a, i: sj.solve(made, index=i, **a))
    expected = made.forward(dict(arrays, index=index))[0]
    np.testing.assert_array_equal(call(arrays, index), expected)
    grad = jax.jit(jax.grad(lambda a: sj.solve(made, index=index, **a).sum()))(arrays)
    native = made.backward(dict(arrays, index=index), np.ones((1, 3, 6, 4)), list(arrays))
    for name in arrays:
        np.testing.assert_array_equal(grad[name], native[name], err_msg=name)


def test_vmap_runs_over_problems():
    arrays, _ = split(seed=3)
    made = sj.layer(GRAPH, **SIZES, iterations=4)
    rhos = jnp.array([0.3, 0.6, 1.2])
    solve = lambda rho: sj.solve(made, **dict(arrays, rho=rho))
    many = jax.vmap(solve)(rhos)
    for i, rho in enumerate(rhos):
        np.testing.assert_allclose(many[i], solve(rho), atol=1e-12)
    grads = jax.vmap(jax.grad(lambda rho: solve(rho).sum()))(rhos)
    assert grads.shape == (3,) and bool(jnp.isfinite(grads).all())


def test_inputs_broadcast():
    made = sj.layer(GRAPH, **SIZES, iterations=4)
    q, maps = jnp.ones((3, 6, 4)), jnp.ones((8, 2, 4))
    loss = lambda diag: sj.solve(made, q=q, diag=diag, maps=maps, rho=1.0, gamma=2.0).sum()
    assert jax.grad(loss)(jnp.ones(4)).shape == (4,)


@pytest.mark.parametrize(
    "change, text",
    [
        (dict(q=np.ones((3, 6, 4), dtype=int)), "q: expected float32 or float64"),
        (dict(q=None), "q: expected an array"),
        (dict(quux=1.0), "inputs: expected q"),
        (dict(diag=np.ones(5)), "diag: expected a shape that broadcasts"),
    ],
)
def test_bad_arrays_are_refused(change, text):
    made = sj.layer(GRAPH, **SIZES, iterations=3)
    inputs = dict(q=jnp.ones((3, 6, 4)), diag=1.0, maps=jnp.ones((8, 2, 4)), rho=1.0, gamma=1.0)
    with pytest.raises(sa.Error) as caught:
        sj.solve(made, **{**inputs, **change})
    assert text in str(caught.value)


def test_a_mistake_inside_a_callback_keeps_its_text():
    made = sj.layer(GRAPH, **SIZES, iterations=3)
    with pytest.raises(Exception, match="rho: expected a finite number above 0"):
        sj.solve(made, q=jnp.ones((3, 6, 4)), diag=1.0, maps=jnp.ones((8, 2, 4)), rho=-1.0, gamma=1.0).block_until_ready()
