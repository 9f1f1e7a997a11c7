"""The layer on numpy arrays: values, gradients, and what it refuses."""

import itertools
import pickle

import numpy as np
import pytest

import reference
import sheaf_admm as sa

GRAPH = sa.Graph.grid(2, 3)
SIZES = dict(d_v=4, d_e=2)


def problem(seed=0, samples=3, maps="shared", dense=False, gamma=True, dtype=np.float64, graph=GRAPH):
    """Random inputs of a layer."""
    rng = np.random.default_rng(seed)
    n, s, (d_v, d_e) = graph.agents, graph.slots, SIZES.values()
    arrays = dict(q=rng.normal(size=(samples, n, d_v)), rho=np.array(0.7), start=rng.normal(size=(samples, n, d_v)))
    if dense:
        half = rng.normal(size=(samples, n, d_v, d_v))
        arrays["quad"] = half @ half.swapaxes(-1, -2) + 0.1 * np.eye(d_v)
    else:
        arrays.update(
            diag=rng.uniform(0.2, 2, size=(samples, n, d_v)),
            l1=rng.uniform(0.05, 0.2, size=(samples, n, d_v)),
            l2=np.array(0.3),
            lo=np.array(-0.4),
            hi=rng.uniform(0.5, 1, size=(samples, n, d_v)),
        )
    one = (s, d_e, d_v)
    lead = {"shared": (), "agent": (n,), "sample": (samples, n), "index": (5,)}[maps.split("-")[0]]
    if maps.endswith("low"):
        arrays["base"] = rng.normal(size=one)
        arrays["a"] = 0.5 * rng.normal(size=(*lead, s, d_e, 2))
        arrays["b"] = rng.normal(size=(*lead, s, d_v, 2))
    else:
        arrays["maps"] = rng.normal(size=(*lead, *one))
    if gamma:
        arrays["gamma"] = np.array(1.3)
    arrays = {name: value.astype(dtype) for name, value in arrays.items()}
    if maps.startswith("index"):
        arrays["index"] = rng.integers(0, 5, size=(samples, n))
    return arrays


MAPS = ["shared", "agent", "sample", "index", "agent-low", "sample-low", "index-low"]


@pytest.mark.parametrize("maps, dense, hard", list(itertools.product(MAPS, [False, True], [False, True])))
def test_iterates_are_those_of_the_reference(maps, dense, hard):
    arrays = problem(maps=maps, dense=dense, gamma=not hard)
    layer = sa.Layer(GRAPH, **SIZES, iterations=7, hard=hard, relax=1.5, window=7)
    expected = reference.solve(GRAPH.edges, GRAPH.slots, arrays, 7, hard=hard, relax=1.5)
    np.testing.assert_allclose(layer.forward(arrays), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("hard", [False, True])
def test_exact_consensus_is_that_of_the_reference(hard):
    arrays = problem(gamma=not hard)
    layer = sa.Layer(GRAPH, **SIZES, iterations=5, hard=hard, consensus="exact", window=5)
    expected = reference.solve(GRAPH.edges, GRAPH.slots, arrays, 5, hard=hard, consensus="exact")
    np.testing.assert_allclose(layer.forward(arrays), expected, rtol=0, atol=1e-9)


def test_float32_gives_the_same_up_to_rounding():
    layer = sa.Layer(GRAPH, **SIZES, iterations=10)
    double = layer.forward(problem(maps="agent"))
    single = layer.forward(problem(maps="agent", dtype=np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=2e-5)


def numeric(layer, arrays, weights, name, places, h=1e-6):
    """Central differences of sum(weights · x) by some entries of an input."""
    found = []
    for place in places:
        values = []
        for step in (h, -h):
            moved = dict(arrays)
            moved[name] = arrays[name].copy()
            if name == "quad":  # which stays symmetric
                moved[name][place] += step / 2
                moved[name].swapaxes(-1, -2)[place] += step / 2
            else:
                moved[name][place] += step
            values.append((layer.forward(moved) * weights).sum())
        found.append((values[0] - values[1]) / (2 * h))
    return np.array(found)


def check_gradients(layer, arrays, tolerance=1e-6):
    rng = np.random.default_rng(5)
    weights = rng.normal(size=layer.forward(arrays).shape)
    names = [name for name in arrays if name not in ("index", "scale")]
    grads = layer.backward(arrays, weights, names)
    assert list(grads) == [name for name in layer_order(names)]
    for name in names:
        assert grads[name].shape == arrays[name].shape
        if name == "quad":
            grads[name] = (grads[name] + grads[name].swapaxes(-1, -2)) / 2
        every = list(np.ndindex(arrays[name].shape))
        places = [every[i] for i in rng.permutation(len(every))[:12]]
        expected = numeric(layer, arrays, weights, name, places)
        got = np.array([grads[name][place] for place in places])
        scale = max(1.0, np.abs(grads[name]).max())
        np.testing.assert_allclose(got, expected, atol=tolerance * scale, rtol=tolerance, err_msg=name)


def layer_order(names):
    from sheaf_admm._arrays import NAMES

    return [name for name in NAMES if name in names]


@pytest.mark.parametrize("maps, dense", list(itertools.product(MAPS, [False, True])))
def test_gradients_are_those_of_finite_differences(maps, dense):
    layer = sa.Layer(GRAPH, **SIZES, iterations=6, relax=1.4, window=2)
    check_gradients(layer, problem(seed=2, maps=maps, dense=dense))


@pytest.mark.parametrize("consensus", ["cg", "cg-zero", "cg-carried", "descent", "exact"])
def test_every_hard_consensus_has_its_gradient(consensus):
    arrays = problem(seed=3, gamma=False)
    if consensus == "descent":
        arrays["eta"] = np.array(0.02)
    check_gradients(sa.Layer(GRAPH, **SIZES, iterations=4, hard=True, consensus=consensus), arrays, 1e-5)


def constrained(seed, kind, samples=3):
    """A problem whose agents have constraints."""
    rng = np.random.default_rng(seed)
    dense = kind != "equal"
    arrays = problem(seed=seed, samples=samples, dense=dense)
    for name in ("l1", "l2", "lo", "hi"):
        arrays.pop(name, None)
    n, d_v = GRAPH.agents, SIZES["d_v"]
    if kind != "box":
        arrays["eq_a"] = rng.normal(size=(samples, n, 2, d_v))
        arrays["eq_b"] = 0.3 * rng.normal(size=(samples, n, 2))
    if kind == "limits":
        arrays["in_g"] = rng.normal(size=(samples, n, 1, d_v))
        arrays["in_h"] = rng.uniform(0.1, 0.3, size=(samples, n, 1))
    if kind in ("box", "limits"):
        arrays["lo"], arrays["hi"] = np.array(-2.0), rng.uniform(0.4, 2, size=(samples, n, d_v))
    return arrays


@pytest.mark.parametrize("kind", ["equal", "equal-dense", "limits", "box"])
def test_agents_with_constraints_have_gradients_and_keep_them(kind):
    arrays = constrained(11, kind)
    layer = sa.Layer(GRAPH, **SIZES, iterations=4, relax=1.3)
    x = layer.forward(arrays)[0]
    if "eq_a" in arrays:
        np.testing.assert_allclose(np.einsum("bnrv,bnv->bnr", arrays["eq_a"], x), arrays["eq_b"], atol=1e-7)
    if "in_g" in arrays:
        assert (np.einsum("bnrv,bnv->bnr", arrays["in_g"], x) <= arrays["in_h"] + 1e-7).all()
    check_gradients(layer, arrays, 1e-5)


def test_agents_with_constraints_reach_the_solution_of_the_network():
    arrays = constrained(12, "limits", samples=1)
    x = sa.Layer(GRAPH, **SIZES, iterations=2000, consensus="exact").forward(arrays)[0, 0]
    net = sa.Network()
    for i in range(GRAPH.agents):
        own = sa.Quadratic(arrays["quad"][0, i], arrays["q"][0, i]).bounds(-2.0, arrays["hi"][0, i])
        own = own.equal(arrays["eq_a"][0, i], arrays["eq_b"][0, i])
        net.agent(own.at_most(arrays["in_g"][0, i], arrays["in_h"][0, i]))
    for u, slot_u, v, slot_v in GRAPH.edges:
        maps = arrays["maps"][slot_u], arrays["maps"][slot_v]
        net.agree(int(u), maps[0], int(v), maps[1], cost="soft", weight=float(arrays["gamma"]))
    solution = net.solve(tol=1e-9)
    assert solution.solved
    np.testing.assert_allclose(x.ravel(), solution.all_x, atol=1e-5)


def test_penalties_of_agents_have_gradients():
    arrays = problem(seed=4)
    arrays["rho"] = np.linspace(0.4, 1.1, GRAPH.agents)
    check_gradients(sa.Layer(GRAPH, **SIZES, iterations=5), arrays)


def test_large_shared_maps_take_the_fast_way_with_the_same_numbers():
    graph, sizes = sa.Graph.sudoku(), dict(d_v=36, d_e=4)
    rng = np.random.default_rng(0)
    n, s = graph.agents, graph.slots
    arrays = dict(
        q=rng.normal(size=(10, n, 36)),
        diag=np.ones((10, n, 36)),
        maps=rng.normal(size=(s, 4, 36)) / 6,
        rho=np.array(0.5),
        gamma=np.array(2.0),
    )
    layer = sa.Layer(graph, **sizes, iterations=4, window=4)
    x = layer.forward(arrays)
    np.testing.assert_allclose(x, reference.solve(graph.edges, s, arrays, 4), atol=1e-9)
    weights = rng.normal(size=x.shape)
    grads = layer.backward(arrays, weights, ["maps", "rho", "gamma"])
    per_agent = dict(arrays, maps=np.ascontiguousarray(np.broadcast_to(arrays["maps"], (n, s, 4, 36))))
    other = layer.backward(per_agent, weights, ["maps", "rho", "gamma"])
    np.testing.assert_allclose(grads["maps"], other["maps"].sum(axis=0), atol=1e-9 * np.abs(grads["maps"]).max())
    np.testing.assert_allclose(grads["rho"], other["rho"], rtol=1e-9)
    np.testing.assert_allclose(grads["gamma"], other["gamma"], rtol=1e-9)


def test_the_implicit_adjoint_is_the_unrolled_one_at_convergence():
    arrays = problem(seed=6)
    options = dict(**SIZES, iterations=400, consensus="exact")
    x = sa.Layer(GRAPH, **options).forward(arrays)
    names = ["q", "diag", "maps", "gamma"]
    unrolled = sa.Layer(GRAPH, **options).backward(arrays, np.ones_like(x), names)
    implicit = sa.Layer(GRAPH, **options, adjoint="implicit", adjoint_tolerance=1e-12)
    implicit = implicit.backward(arrays, np.ones_like(x), names)
    for name in names:
        np.testing.assert_allclose(implicit[name], unrolled[name], atol=1e-7, err_msg=name)


def test_gradients_through_the_last_iterations_ignore_the_start():
    arrays = problem(seed=7)
    layer = sa.Layer(GRAPH, **SIZES, iterations=9, adjoint=3)
    grads = layer.backward(arrays, np.ones((1, 3, 6, 4)), ["q", "start"])
    assert np.abs(grads["start"]).max() == 0 and np.abs(grads["q"]).max() > 0


@pytest.mark.parametrize("maps", MAPS)
def test_the_number_of_threads_changes_no_bit(maps):
    arrays = problem(seed=8, samples=37, maps=maps, dtype=np.float32)
    names = layer_order([name for name in arrays if name != "index"])
    results = []
    for threads in (1, 2, 5):
        layer = sa.Layer(GRAPH, **SIZES, iterations=5, threads=threads)
        x = layer.forward(arrays)
        results.append([x, *layer.backward(arrays, np.ones_like(x), names).values()])
    for other in results[1:]:
        for a, b in zip(results[0], other):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", ["q", "diag", "hi", "start", "maps"])
def test_any_order_of_memory_gives_the_right_answer(name):
    arrays = problem(seed=9, maps="agent")
    layer = sa.Layer(GRAPH, **SIZES, iterations=4)
    expected = layer.forward(arrays)
    grads = layer.backward(arrays, np.ones_like(expected), ["q", "maps"])
    views = {
        "fortran": np.asfortranarray(arrays[name]),
        "transposed": np.ascontiguousarray(arrays[name].swapaxes(0, -1)).swapaxes(0, -1),
        "strided": np.repeat(arrays[name], 2, axis=1)[:, ::2],
        "reversed": np.ascontiguousarray(arrays[name][::-1])[::-1],
    }
    for what, view in views.items():
        assert not view.flags.c_contiguous, what
        moved = {**arrays, name: view}
        np.testing.assert_array_equal(layer.forward(moved), expected, err_msg=what)
        for key, grad in layer.backward(moved, np.asfortranarray(np.ones_like(expected)), ["q", "maps"]).items():
            np.testing.assert_array_equal(grad, grads[key], err_msg=what)


def test_a_read_only_array_is_read():
    arrays = problem()
    arrays["q"].flags.writeable = False
    assert np.isfinite(sa.Layer(GRAPH, **SIZES, iterations=3).forward(arrays)).all()


BAD = {
    "shape of q": (lambda a: a.update(q=a["q"][:, :5]), "Shape", "q: expected [batch, 6, 4], got [3, 5, 4]"),
    "no q": (lambda a: a.pop("q"), "Unsupported", "q: expected the linear term"),
    "empty batch": (lambda a: a.update(q=a["q"][:0]), "Shape", "a batch of at least 1 sample, got an empty batch"),
    "type of diag": (lambda a: a.update(diag=a["diag"].astype("f4")), "Unsupported", "diag: expected an array of float64"),
    "integers": (lambda a: a.update(diag=np.ones((3, 6, 4), dtype=int)), "Unsupported", 'hint: convert it with numpy.asarray(…, "float64")'),
    "a list": (lambda a: a.update(diag=[1.0]), "Unsupported", "got list"),
    "other bytes": (lambda a: a.update(q=a["q"].astype(">f8")), "Unsupported", "q: expected an array of float64"),
    "NaN": (lambda a: a["q"].__setitem__((2, 1, 0), np.nan), "NotFinite", "sample 2: diagonal.q[4]"),
    "NaN in maps": (lambda a: a["maps"].__setitem__((0, 0, 0), np.nan), "NotFinite", "a finite number"),
    "rho of 0": (lambda a: a.update(rho=np.array(0.0)), "NotPositive", "rho: expected a finite number above 0"),
    "no gamma": (lambda a: a.pop("gamma"), "Unsupported", "gamma: expected the price"),
    "a gamma of many": (lambda a: a.update(gamma=np.ones(3)), "Shape", "gamma: expected [], one number"),
    "concave": (lambda a: a.update(diag=a["diag"] - 5), "NotPositiveDefinite", "hint: pass the diagonal through softplus"),
    "empty box": (lambda a: a.update(lo=np.array(9.0)), "Infeasible", "lo ≤ hi"),
    "unknown": (lambda a: a.update(quux=a["q"]), "Unsupported", "`quux`"),
    "maps of others": (lambda a: a.update(maps=np.ones((7, 8, 2, 4))), "Shape", "hint: maps of distinct views"),
    "index outside": (
        lambda a: a.update(maps=np.ones((2, 8, 2, 4)), index=np.full((3, 6), 2)),
        "OutOfRange",
        "views from 0 to 1",
    ),
    "rows that differ": (
        lambda a: (a.pop("l1"), a.pop("l2"), a.update(eq_a=np.ones((3, 6, 2, 4)), eq_b=np.ones((3, 6, 1)))),
        "Shape",
        "eq_b: expected 2 rows, as eq_a",
    ),
    "equalities without a side": (
        lambda a: (a.pop("l1"), a.pop("l2"), a.update(eq_a=np.ones((3, 6, 2, 4)))),
        "Unsupported",
        "eq_a and eq_b together",
    ),
    "l1 beside equalities": (
        lambda a: a.update(eq_a=np.ones((3, 6, 1, 4)), eq_b=np.ones((3, 6, 1))),
        "Unsupported",
        "l1 and l2: expected none beside quad",
    ),
    "two objectives": (lambda a: a.update(quad=np.ones((3, 6, 4, 4))), "Unsupported", "quad: expected none beside"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_an_exception_that_says_what_to_do(case):
    change, kind, text = BAD[case]
    arrays = problem()
    change(arrays)
    layer = sa.Layer(GRAPH, **SIZES, iterations=3)
    with pytest.raises(sa.Error) as caught:
        layer.forward(arrays)
    assert caught.value.kind == kind and text in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "options, text",
    [
        (dict(iterations=0), "iterations: expected at least 1"),
        (dict(iterations=3, window=4), "window: expected at most 3"),
        (dict(iterations=3, consensus="magic"), 'consensus: expected "cg"'),
        (dict(iterations=3, adjoint="implicit"), 'hint: take consensus="exact"'),
        (dict(iterations=3, adjoint=0), "adjoint: expected at least 1"),
    ],
)
def test_choices_without_a_meaning_are_refused(options, text):
    with pytest.raises(sa.Error, match=".*") as caught:
        sa.Layer(GRAPH, **SIZES, **options)
    assert text in str(caught.value)


def test_a_wrong_gradient_of_x_is_refused():
    layer, arrays = sa.Layer(GRAPH, **SIZES, iterations=3), problem()
    with pytest.raises(sa.Error, match="gradient of x"):
        layer.backward(arrays, np.ones((3, 6, 4)), ["q"])
    with pytest.raises(sa.Error, match="wanted"):
        layer.backward(arrays, np.ones((1, 3, 6, 4)), ["index"])


def test_contiguous_arrays_are_read_where_they_are():
    from sheaf_admm._native import _reads_in_place

    array = np.ones((4, 5, 6), dtype=np.float32)
    assert _reads_in_place(array) and _reads_in_place(array[1:3])
    assert not _reads_in_place(np.asfortranarray(array)) and not _reads_in_place(array[:, ::2])


def test_layers_are_pickled():
    arrays = problem()
    layer = sa.Layer(GRAPH, **SIZES, iterations=5, consensus="cg-warm", steps=3, relax=1.2, adjoint=2)
    again = pickle.loads(pickle.dumps(layer))
    x = layer.forward(arrays)
    np.testing.assert_array_equal(again.forward(arrays), x)
    grads, other = (one.backward(arrays, np.ones_like(x), ["q", "maps"]) for one in (layer, again))
    np.testing.assert_array_equal(grads["q"], other["q"])
