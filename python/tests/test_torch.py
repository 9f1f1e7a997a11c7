"""The layer for torch."""

import copy
import gc
import io
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import sheaf_admm as sa  # noqa: E402
import sheaf_admm.torch as st  # noqa: E402
from sheaf_admm._torch_op import _has_custom_op  # noqa: E402
from test_layer import GRAPH, MAPS, SIZES, constrained, problem  # noqa: E402

new_torch = pytest.mark.skipif(not _has_custom_op(), reason=f"not tested: torch {torch.__version__} is below 2.4")


def tensors(**options):
    """Inputs as tensors that require gradients, and the index."""
    arrays = problem(**options)
    index = arrays.pop("index", None)
    inputs = {name: torch.from_numpy(value).clone().requires_grad_() for name, value in arrays.items()}
    return inputs, None if index is None else torch.from_numpy(index)


@pytest.mark.parametrize("maps", MAPS)
@pytest.mark.parametrize("dense", [False, True])
def test_gradcheck(maps, dense):
    inputs, index = tensors(samples=2, maps=maps, dense=dense, seed=1)
    made = st.layer(GRAPH, **SIZES, iterations=3, relax=1.3)
    names = list(inputs)
    call = lambda *values: st.solve(made, index=index, **dict(zip(names, values)))
    assert torch.autograd.gradcheck(call, tuple(inputs.values()), fast_mode=True)


@pytest.mark.parametrize("kind", ["equal", "limits", "box"])
def test_gradcheck_with_constraints(kind):
    arrays = constrained(21, kind, samples=2)
    inputs = {name: torch.from_numpy(value).clone().requires_grad_() for name, value in arrays.items()}
    made = st.layer(GRAPH, **SIZES, iterations=3)
    call = lambda *values: st.solve(made, **dict(zip(inputs, values)))
    assert torch.autograd.gradcheck(call, tuple(inputs.values()), fast_mode=True)


def test_constraints_broadcast():
    made = st.layer(GRAPH, **SIZES, iterations=40)
    row = torch.ones(1, 4, requires_grad=True)
    x = st.solve(made, q=torch.randn(2, 6, 4), diag=1.0, eq_a=row, eq_b=torch.ones(1), maps=torch.randn(8, 2, 4), rho=1.0, gamma=1.0)
    torch.testing.assert_close(x.sum(-1), torch.ones(2, 6), atol=1e-4, rtol=0)
    x.square().sum().backward()
    assert row.grad.shape == (1, 4)


def test_contiguous_tensors_share_their_memory_with_the_arrays():
    from sheaf_admm._torch_op import _arrays

    tensor = torch.randn(2, 3, 4, requires_grad=True)
    arrays = _arrays("q", [tensor], None, None)
    assert arrays["q"].__array_interface__["data"][0] == tensor.data_ptr()


def test_gradcheck_in_full():
    graph = sa.Graph(3, [(0, 1), (1, 2)])
    made = st.layer(graph, 2, 1, iterations=3)
    torch.manual_seed(0)
    q = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    maps = torch.randn(2, 1, 2, dtype=torch.float64, requires_grad=True)
    rho, gamma = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.4, 1.2))
    call = lambda q, maps, rho, gamma: st.solve(made, q=q, diag=1.0, maps=maps, rho=rho, gamma=gamma)
    assert torch.autograd.gradcheck(call, (q, maps, rho, gamma))


@pytest.mark.parametrize("adjoint", ["implicit", 2])
def test_the_adjoint_is_an_argument(adjoint):
    inputs, _ = tensors(seed=2)
    made = st.layer(GRAPH, **SIZES, iterations=300, consensus="exact", adjoint=adjoint, adjoint_tolerance=1e-12)
    st.solve(made, **inputs).sum().backward()
    grad = inputs["q"].grad.clone()
    inputs["q"].grad = None
    st.solve(st.layer(GRAPH, **SIZES, iterations=300, consensus="exact"), **inputs).sum().backward()
    gap = (grad - inputs["q"].grad).abs().max()
    assert gap < 1e-7 if adjoint == "implicit" else gap > 1e-6


def test_values_and_gradients_are_those_of_the_layer_on_arrays():
    inputs, index = tensors(maps="index-low", seed=3)
    made = st.layer(GRAPH, **SIZES, iterations=5, window=2)
    x = st.solve(made, index=index, **inputs)
    weights = torch.randn_like(x)
    (x * weights).sum().backward()
    arrays = {name: value.detach().numpy() for name, value in inputs.items()}
    arrays["index"] = index.numpy()
    np.testing.assert_array_equal(x.detach().numpy(), made.forward(arrays))
    for name, grad in made.backward(arrays, weights.numpy(), list(inputs)).items():
        np.testing.assert_array_equal(inputs[name].grad.numpy(), grad, err_msg=name)


def test_inputs_broadcast_and_their_gradients_add_up():
    made = st.layer(GRAPH, **SIZES, iterations=4)
    torch.manual_seed(1)
    q, maps = torch.randn(3, 6, 4), torch.randn(8, 2, 4)
    diag = torch.rand(4, requires_grad=True)
    hi = torch.rand(6, 1, requires_grad=True)
    st.solve(made, q=q, diag=diag, hi=hi, maps=maps, rho=1.0, gamma=2.0).sum().backward()
    assert diag.grad.shape == (4,) and hi.grad.shape == (6, 1) and diag.grad.abs().sum() > 0
    with pytest.raises(sa.Error, match=r"diag: expected a shape that broadcasts to \[3, 6, 4\], got \[5\]"):
        st.solve(made, q=q, diag=torch.ones(5), maps=maps, rho=1.0, gamma=2.0)


def test_transposed_tensors_give_the_right_answer():
    inputs, _ = tensors(seed=4)
    made = st.layer(GRAPH, **SIZES, iterations=4)
    expected = st.solve(made, **inputs)
    moved = dict(inputs, q=inputs["q"].detach().transpose(0, 2).contiguous().transpose(0, 2))
    assert not moved["q"].is_contiguous()
    assert torch.equal(st.solve(made, **moved), expected)


@pytest.mark.parametrize(
    "change, text",
    [
        (dict(q=torch.ones(3, 6, 4, device="meta")), "q: expected a tensor on the CPU, got one on meta\nhint: move it with"),
        (dict(diag=torch.ones(3, 6, 4, dtype=torch.float16)), "diag: expected float32 or float64, got torch.float16"),
        (dict(q=torch.ones(3, 6, 4, dtype=torch.int64)), "q: expected float32 or float64"),
        (dict(q=torch.full((3, 6, 4), float("nan"))), "sample 0: diagonal.q[0]: expected a finite number, got NaN"),
        (dict(q=torch.ones(0, 6, 4)), "a batch of at least 1 sample, got an empty batch"),
        (dict(q=None), "q: expected a tensor"),
        (dict(quux=1.0), "inputs: expected q, diag"),
        (dict(diag=torch.ones(3, 6, 4).to_sparse()), "diag: expected a dense tensor"),
    ],
)
def test_bad_tensors_are_refused(change, text):
    made = st.layer(GRAPH, **SIZES, iterations=3)
    inputs = dict(q=torch.ones(3, 6, 4), diag=1.0, maps=torch.ones(8, 2, 4), rho=1.0, gamma=1.0)
    inputs.update(change)
    with pytest.raises(sa.Error) as caught:
        st.solve(made, **inputs)
    assert text in str(caught.value)


@pytest.mark.parametrize("options", [{}, dict(gamma=None), dict(maps="global"), dict(rank=2, learn_gamma=True)])
def test_the_module_learns(options):
    torch.manual_seed(2)
    net = st.SheafADMM(GRAPH, **SIZES, iterations=8, **options)
    rank = options.get("rank", 0)
    factors = dict(a=0.3 * torch.randn(6, 8, 2, rank), b=torch.randn(6, 8, 4, rank)) if rank else {}
    q, goal = torch.randn(5, 6, 4), torch.randn(5, 6, 4)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = (net(q, **factors) - goal).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 1e-3
    assert all(p.grad is not None for p in net.parameters() if p.requires_grad)


def test_a_module_is_copied_pickled_and_saved():
    net = st.SheafADMM(GRAPH, **SIZES, iterations=4)
    q = torch.randn(2, 6, 4)
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(again(q), net(q))
    other = st.SheafADMM(GRAPH, **SIZES, iterations=4)
    buffer = io.BytesIO()
    torch.save(net.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer))
    assert torch.equal(other(q), net(q))
    assert "d_v=4" in repr(net)


def test_wrong_options_of_the_module():
    with pytest.raises(sa.Error, match="rho: expected a finite number above 0"):
        st.SheafADMM(GRAPH, **SIZES, iterations=4, rho=-1.0)
    with pytest.raises(sa.Error, match="factors: expected none, got a"):
        st.SheafADMM(GRAPH, **SIZES, iterations=4)(torch.ones(1, 6, 4), a=torch.ones(6, 8, 2, 1))


def test_a_second_derivative_is_refused():
    inputs, _ = tensors()
    x = st.solve(st.layer(GRAPH, **SIZES, iterations=3), **inputs)
    (grad,) = torch.autograd.grad(x.sum(), inputs["q"], create_graph=True)
    with pytest.raises(RuntimeError):
        grad.sum().backward()


def test_layers_are_copied_and_pickled():
    inputs, _ = tensors()
    made = st.layer(GRAPH, **SIZES, iterations=3, relax=1.2, window=2, adjoint=2, threads=1)
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again.number != made.number
        assert torch.equal(st.solve(again, **inputs), st.solve(made, **inputs))


def test_a_layer_lives_as_long_as_somebody_needs_it():
    from sheaf_admm._torch_op import _layers

    gc.collect()
    before = set(_layers)
    inputs, _ = tensors()
    x = st.solve(st.layer(GRAPH, **SIZES, iterations=3), **inputs)
    gc.collect()
    assert len(set(_layers) - before) == 1, "its gradient is still to be computed"
    x.sum().backward()
    assert inputs["q"].grad.abs().sum() > 0
    for _ in range(10):
        st.SheafADMM(GRAPH, **SIZES, iterations=3)(inputs["q"].detach().float())
    del x
    gc.collect()
    assert set(_layers) <= before


@new_torch
def test_compiled_code_that_outlives_its_layer_says_so():
    made = [st.layer(GRAPH, **SIZES, iterations=3)]
    call = torch.compile(lambda q: st.solve(made[0], q=q, diag=1.0, maps=torch.ones(8, 2, 4), rho=1.0, gamma=1.0))
    q = torch.randn(2, 6, 4, requires_grad=True)
    x = call(q)
    made.clear()
    torch.compiler.reset()  # its guards may keep the layer, too
    gc.collect()
    with pytest.raises((sa.Error, RuntimeError), match="layer: expected one that is still there"):
        x.sum().backward()


@new_torch
def test_opcheck():
    from sheaf_admm._torch_op import _solve

    inputs, index = tensors(samples=2, maps="index")
    made = st.layer(GRAPH, **SIZES, iterations=3)
    values = [value.expand(2, 6, 4).contiguous() if name == "diag" else value for name, value in inputs.items()]
    order = sorted(range(len(inputs)), key=lambda i: st.NAMES.index(list(inputs)[i]))
    names = tuple(list(inputs)[i] for i in order)
    values = [values[i].detach().requires_grad_() for i in order]
    torch.library.opcheck(_solve, (values, index, made.number, " ".join(names), None))


def test_a_layer_that_torch_does_not_know_is_refused():
    inputs, _ = tensors()
    with pytest.raises(sa.Error, match="layer: expected one made by sheaf_admm.torch.layer, got Layer"):
        st.solve(sa.Layer(GRAPH, **SIZES, iterations=3), **inputs)


@new_torch
def test_the_function_is_compiled_too():
    made = st.layer(GRAPH, **SIZES, iterations=4)
    maps = torch.randn(8, 2, 4)

    @torch.compile(fullgraph=True)
    def loss(q):
        return st.solve(made, q=2 * q, diag=1.0, lo=0.0, maps=maps, rho=0.5, gamma=1.0).square().sum()

    q = torch.randn(3, 6, 4)
    torch.testing.assert_close(loss(q), st.solve(made, q=2 * q, diag=1.0, lo=0.0, maps=maps, rho=0.5, gamma=1.0).square().sum())


@new_torch
def test_compile_keeps_the_whole_graph():
    torch.manual_seed(3)
    net = st.SheafADMM(GRAPH, **SIZES, iterations=4)
    compiled = torch.compile(net, fullgraph=True)
    q = torch.randn(3, 6, 4, requires_grad=True)
    x = compiled(q)
    torch.testing.assert_close(x, net(q))
    x.square().sum().backward()
    grad = q.grad.clone()
    q.grad = None
    net(q).square().sum().backward()
    torch.testing.assert_close(grad, q.grad)
