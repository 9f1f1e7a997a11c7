"""Problems of one's own."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import sheaf_admm as sa


def test_the_first_example_works_word_for_word():
    import numpy as np, sheaf_admm as sa; net = sa.Network(); a = net.agent(sa.Quadratic(np.eye(2), np.array([-1.0, -7.0]))); b = net.agent(sa.Quadratic(np.eye(3), np.array([-2.0, 3.0, -1.0]))); net.agree(a, np.array([[1.0, 0.0]]), b, np.array([[1.0, 0.0, 0.0]]), offset=np.array([0.5])); sol = net.solve(tol=1e-9); sol.status, sol.x(a), sol.x(b)  # noqa: E501, E702, F811
    assert sol.status == "solved"
    np.testing.assert_allclose(sol.x(a), [1.75, 7.0], atol=1e-6)
    np.testing.assert_allclose(sol.x(b), [1.25, -3.0, 1.0], atol=1e-6)


def random_network(seed=0, sparse=False, agents=5, d=3):
    """A ring of quadratic agents that agree on one number with their neighbours."""
    rng = np.random.default_rng(seed)
    net, ids, edges, quads, qs, maps = sa.Network(), [], [], [], [], []
    for _ in range(agents):
        half = rng.normal(size=(d, d))
        quads.append(half @ half.T + np.eye(d))
        qs.append(rng.normal(size=d))
    if sparse:
        from scipy import sparse as sp

        kinds = [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.lil_matrix, sp.dia_matrix]
        wrap = lambda i, m: kinds[i % len(kinds)](m)
    else:
        wrap = lambda i, m: m
    for i in range(agents):
        ids.append(net.agent(sa.Quadratic(wrap(i, quads[i]), qs[i])))
    for i in range(agents):
        pair = rng.normal(size=(2, 1, d))
        maps.append(pair)
        edges.append(net.agree(ids[i], wrap(i, pair[0]), ids[(i + 1) % agents], wrap(i + 1, pair[1]), offset=[0.1 * i]))
    return net, ids, edges, quads, qs, maps


def kkt(quads, qs, maps, offsets):
    """x of all agents by one dense system."""
    agents, d = len(quads), len(qs[0])
    f = np.zeros((agents, agents * d))
    for i, (first, second) in enumerate(maps):
        j = (i + 1) % agents
        f[i, i * d : (i + 1) * d] = first
        f[i, j * d : (j + 1) * d] = -second
    q = np.zeros((agents * d, agents * d))
    for i, quad in enumerate(quads):
        q[i * d : (i + 1) * d, i * d : (i + 1) * d] = quad
    system = np.block([[q, f.T], [f, np.zeros((agents, agents))]])
    return np.linalg.solve(system, np.concatenate([-np.concatenate(qs), offsets]))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_ring_is_solved_as_a_dense_system_solves_it(sparse):
    if sparse:
        pytest.importorskip("scipy")
    net, ids, edges, quads, qs, maps = random_network(1, sparse)
    sol = net.solve(tol=1e-10)
    expected = kkt(quads, qs, maps, 0.1 * np.arange(5))
    np.testing.assert_allclose(sol.all_x, expected[:15], atol=1e-7)
    prices = np.concatenate([sol.price(edge) for edge in edges])
    np.testing.assert_allclose(prices, expected[15:], atol=1e-6)
    history = sol.history
    assert len(history["primal"]) == sol.iterations and history["primal"][-1] < history["primal"][0]
    assert all(value <= goal for value, goal in sol.residuals.values())


@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_are_those_of_the_dense_system(sparse):
    if sparse:
        pytest.importorskip("scipy")
    net, ids, edges, quads, qs, maps = random_network(2, sparse)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=15)
    grad = net.solve(tol=1e-12, iterations=100_000).backward(weights)
    offsets = 0.1 * np.arange(5)
    loss = lambda: weights @ kkt(quads, qs, maps, offsets)[:15]
    dense = lambda g: g.toarray() if hasattr(g, "toarray") else g
    for array, got in [
        (qs[1], grad.agent(ids[1])["q"]),
        (quads[2], dense(grad.agent(ids[2])["Q"])),
        (maps[3][0], dense(grad.edge(edges[3])["map_a"])),
        (maps[3][1], dense(grad.edge(edges[3])["map_b"])),
        (offsets[4:], grad.edge(edges[4])["offset"]),
    ]:
        assert got.shape == array.shape
        for place in np.ndindex(array.shape):
            before = array[place]
            values = []
            for h in (1e-6, -1e-6):
                array[place] = before + h
                values.append(loss())
            array[place] = before
            np.testing.assert_allclose(got[place], (values[0] - values[1]) / 2e-6, atol=1e-5)


def test_a_batch_is_its_variants_one_by_one_on_any_number_of_threads():
    net, ids, edges, *_ = random_network(3)
    rng = np.random.default_rng(1)
    q, offset = rng.normal(size=(7, 3)), rng.normal(size=(7, 1))
    batches = [sa.solve_batch(net, q={ids[0]: q}, offset={edges[2]: offset}, tol=1e-9, threads=t) for t in (1, 3)]
    assert batches[0].all_x.tobytes() == batches[1].all_x.tobytes()
    assert batches[0].solved.all() and len(batches[0]) == 7
    solver = net.solver(tol=1e-9)
    for i in range(7):
        solver.reset()
        solver.update_q(ids[0], q[i])
        solver.update_offset(edges[2], offset[i])
        np.testing.assert_array_equal(solver.solve().all_x, batches[0].all_x[i])
    dx = rng.normal(size=(7, 15))
    grads = batches[0].backward(dx)
    np.testing.assert_array_equal(grads.agent(ids[0])["q"][4], batches[0][4].backward(dx[4]).agent(ids[0])["q"])
    by_agent = batches[0].backward({ids[1]: dx[:, 3:6]})
    seed = np.zeros_like(dx)
    seed[:, 3:6] = dx[:, 3:6]
    np.testing.assert_array_equal(by_agent.edge(edges[0])["offset"], batches[0].backward(seed).edge(edges[0])["offset"])


def test_bounds_and_constraints_of_a_batch_can_change():
    net = sa.Network()
    a = net.agent(sa.Quadratic([1.0, 1.0], [-3.0, -3.0]).bounds(0, [1.0, 2.0]).at_most([[1.0, 1.0]], [10.0]))
    batch = sa.solve_batch(net, bounds={a: (np.zeros((2, 2)), np.array([[1.0, 2.0], [0.5, 4.0]]))}, tol=1e-9)
    np.testing.assert_allclose(batch.x(a), [[1, 2], [0.5, 3]], atol=1e-7)
    batch = sa.solve_batch(net, at_most={a: np.array([[1.0], [2.0]])}, tol=1e-9)
    np.testing.assert_allclose(batch.x(a).sum(axis=1), [1, 2], atol=1e-7)
    duals = batch[0].duals(a)
    assert duals["at_most"].shape == (1,) and duals["at_most"][0] > 0


def test_an_empty_batch_is_refused():
    net, ids, *_ = random_network()
    with pytest.raises(sa.Error, match="an empty batch"):
        sa.solve_batch(net, q={ids[0]: np.zeros((0, 3))})
    with pytest.raises(sa.Error, match="variants"):
        sa.solve_batch(net)


def test_other_objectives_and_costs():
    net = sa.Network()
    a = net.agent(sa.Simplex(3))
    b = net.agent(sa.Quadratic(np.ones(3), [-1.0, 0.0, 0.5]))
    net.agree(a, np.eye(3), b, np.eye(3), cost="soft", weight=50.0)
    sol = net.solve(tol=1e-9)
    assert sol.solved and abs(sol.x(a).sum() - 1) < 1e-7 and (sol.x(a) >= -1e-9).all()
    c = net.agent(sa.Ball([0.0, 0.0, 0.0], 0.25, "linf"))
    net.agree(b, np.eye(3), c, np.eye(3), cost="huber", weight=1.0, delta=0.1)
    assert net.solve(tol=1e-8).x(c).max() <= 0.25 + 1e-7
    labels = np.array([1.0, -1.0, 1.0, -1.0])
    d = net.agent(sa.Logistic(np.random.default_rng(0).normal(size=(4, 3)), labels, l2=0.1))
    net.agree(c, np.eye(3), d, np.eye(3), cost="l1", weight=0.1)
    assert net.solve(tol=1e-7).solved
    assert repr(net) == "Network(agents=4, edges=3)"


def pair(q=-1.0):
    """Two agents with one number each that must agree."""
    net = sa.Network()
    a, b = net.agent(sa.Quadratic([[1.0]], [q])), net.agent(sa.Quadratic([[3.0]], [-9.0]))
    return net, a, b, net.agree(a, [[1.0]], b, [[1.0]])


def test_settings_are_keywords_or_one_object():
    net, a, *_ = pair()
    settings = sa.Settings(1e-10, relax=1.0, threads=1)
    assert "tol=0.0000000001" in repr(settings)
    one, other = net.solve(settings), net.solve(tol=1e-10, relax=1.0, threads=1)
    np.testing.assert_array_equal(one.all_x, other.all_x)
    again = pickle.loads(pickle.dumps(settings))
    np.testing.assert_array_equal(net.solve(again).all_x, one.all_x)
    assert again.__getnewargs_ex__() == settings.__getnewargs_ex__()
    assert net.solve(1e-10, iterations=1).status == "iteration limit"
    with pytest.raises(TypeError, match="quux"):
        net.solve(quux=1)
    with pytest.raises(sa.Error, match="no keyword beside a Settings"):
        net.solve(settings, relax=1.5)
    with pytest.raises(sa.Error, match="relax: expected a number below 2"):
        sa.Settings(relax=2.0)


def test_interventions_act_while_a_network_is_solved():
    net, a, b, edge = pair()
    solver = net.solver(tol=1e-9)
    plain = solver.play([], 60)
    assert plain["x"].shape == (60, 2) and plain["cut"].shape == (60, 1) and not plain["removed"].any()
    np.testing.assert_allclose(plain["x"][-1], net.solve(tol=1e-9).all_x, atol=1e-6)
    kick = {"k": 20, "before": "end", "do": {"set": {"of": "z", "agents": [a], "to": np.array([7.0])}}}
    kicked = solver.play([kick], 60)
    np.testing.assert_array_equal(kicked["x"][:19], plain["x"][:19])
    assert abs(kicked["z"][19, 0] - 7.0) < 1e-12 and kicked["z"][19, 1] == plain["z"][19, 1]
    np.testing.assert_allclose(kicked["x"][-1], plain["x"][-1], atol=1e-4)
    moved = solver.play([{"k": 10, "do": {"input": 1}}], 200, inputs=[pair(-5.0)[0]])
    np.testing.assert_allclose(moved["x"][-1], pair(-5.0)[0].solve(tol=1e-9).all_x, atol=1e-5)
    again = solver.play({"start": {"z": plain["z"][-1]}, "interventions": [{"k": 3, "do": {"remove": [1]}}]}, 5)
    assert again["removed"][2:, 1].all() and again["cut"][2:].all() and not again["cut"][:2].any()


@pytest.mark.parametrize(
    "script, text",
    [
        ([{"k": 1, "do": {"cut": [[0, 5]]}}], "interventions[0].do.cut: expected two agents that share an edge"),
        ([{"k": 99, "do": {"rho": 1.0}}], "interventions[0].k: expected an iteration from 1 to 10"),
        ([{"k": 1, "do": {"quux": 1}}], "hint: docs/explore.md lists the actions"),
        ([{"k": 1, "do": {"set": {"of": "z", "agents": [0], "to": [1.0, 2.0]}}}], "interventions[0].do.set.to"),
        ({"list": []}, "unknown field `list`"),
    ],
)
def test_wrong_interventions_are_exceptions(script, text):
    with pytest.raises(sa.Error) as caught:
        pair()[0].solver().play(script, 10)
    assert text in str(caught.value)


def test_infeasible_is_a_status_and_no_exception():
    net = sa.Network()
    a = net.agent(sa.Quadratic([[1.0]], [0.0]).bounds(0, 1))
    b = net.agent(sa.Quadratic([[1.0]], [0.0]).bounds(2, 3))
    net.agree(a, [[1.0]], b, [[1.0]])
    sol = net.solve()
    assert sol.status == "infeasible" and not sol.solved
    with pytest.raises(sa.Error, match="a solved network, got infeasible\nhint: call solve"):
        sol.backward([1.0, 0.0])


MISTAKES = [
    (lambda: sa.Quadratic(np.eye(2), [1.0, np.nan]), "NotFinite", "q[1]: expected a finite number, got NaN"),
    (lambda: sa.Quadratic(np.eye(2), [1.0]), "Shape", ""),
    (lambda: sa.Quadratic([[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0]), "NotPositiveDefinite", ""),
    (lambda: sa.Quadratic([[-1.0]], [0.0]), "NotPositiveDefinite", ""),
    (lambda: sa.Quadratic(np.eye(2) * 1j, [0.0, 0.0]), "Unsupported", "Q: expected real numbers, got ndarray of complex128"),
    (lambda: sa.Quadratic(np.zeros((2, 2, 2)), [0.0, 0.0]), "Shape", "a matrix, or the diagonal of one"),
    (lambda: sa.Network().solve(), "Shape", "network: expected at least one agent"),
    (lambda: sa.Network().agent("x"), "Unsupported", "objective: expected a Quadratic"),
    (lambda: sa.Ball([0.0], -1.0), "NotPositive", ""),
    (lambda: sa.Ball([0.0], 1.0, "l7"), "Unsupported", "norm: expected"),
    (lambda: sa.Graph(2, [(0, 5)]), "OutOfRange", "edge 0, end v: expected an agent below 2, got agent 5"),
    (lambda: sa.Graph.grid(2, 2, connectivity=6), "Unsupported", "connectivity: expected 4 or 8"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes_are_exceptions_with_kind_and_text(number):
    make, kind, text = MISTAKES[number]
    with pytest.raises(sa.Error) as caught:
        make()
    assert caught.value.kind == kind and text in str(caught.value), caught.value
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.kind, again.hint) == (str(caught.value), kind, caught.value.hint)


def test_mistakes_at_edges_name_the_edge():
    net, ids, edges, *_ = random_network()
    other = random_network()[1][0]
    for call, text in [
        (lambda: net.agree(ids[0], [[1.0, 0.0]], ids[1], [[1.0, 0.0, 0.0]]), "edge 5: map of end a: expected 3 columns"),
        (lambda: net.agree(ids[0], [1.0, 0.0, 0.0], ids[1], [[1.0, 0.0, 0.0]]), "hint: a map with one row"),
        (lambda: net.agree(other, np.eye(3), ids[1], np.eye(3)), "an agent of another network"),
        (lambda: net.agree(9, np.eye(3), ids[1], np.eye(3)), "agent: expected a number below 5, got 9"),
        (lambda: net.agree(ids[0], np.eye(3), ids[1], np.eye(3), cost="soft", weight=-1), "edge 5: weight: expected a finite number above 0"),
        (lambda: net.solve(tol=0), "tol: expected a finite number above 0"),
        (lambda: net.solve(time_limit=-1), "time_limit"),
        (lambda: net.solve().backward([1.0]), "gradient of x: expected 15 numbers, got 1"),
        (lambda: net.solve().x(99), "agent: expected a number below 5"),
    ]:
        with pytest.raises(sa.Error) as caught:
            call()
        assert text in str(caught.value), caught.value


ORDERS = [np.asfortranarray, lambda m: np.ascontiguousarray(m.T).T, lambda m: np.kron(m, [[1, 9]])[:, ::2]]


@pytest.mark.parametrize("make", ORDERS)
def test_any_order_of_memory_gives_the_same_problem(make):
    rng = np.random.default_rng(4)
    half = rng.normal(size=(4, 4))
    quad, first, second = half @ half.T + np.eye(4), rng.normal(size=(2, 4)), rng.normal(size=(2, 4))
    answers = []
    for order in (lambda m: m, make):
        net = sa.Network()
        a, b = (net.agent(sa.Quadratic(order(quad), rng_q)) for rng_q in (np.arange(4.0), -np.ones(4)))
        net.agree(a, order(first), b, order(second))
        answers.append(net.solve(tol=1e-10).all_x)
    np.testing.assert_array_equal(answers[0], answers[1])


def test_a_solver_warm_starts_and_states_travel():
    net, ids, *_ = random_network(5)
    solver = net.solver(tol=1e-8)
    cold = solver.solve().iterations
    state = solver.state()
    assert solver.solve().iterations < cold
    other = net.solver(tol=1e-8)
    other.start_from(state)
    assert other.solve().iterations < cold
    other.reset()
    assert other.solve().iterations == cold


def test_networkx_graphs_become_graphs():
    nx = pytest.importorskip("networkx")
    graph = sa.Graph.from_networkx(nx.grid_2d_graph(3, 3))
    assert (graph.agents, graph.slots, len(graph.edges)) == (9, 4, 12)
    multi = nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c")])
    assert sa.Graph.from_networkx(multi).edges[:, [0, 2]].tolist() == [[0, 1], [0, 1], [1, 2]]
    assert pickle.loads(pickle.dumps(graph)) == graph
    both = nx.DiGraph([("a", "b"), ("b", "a"), ("c", "b")])
    assert sa.Graph.from_networkx(both).edges[:, [0, 2]].tolist() == [[0, 1], [1, 2]]


LONG = """
import signal, numpy as np, sheaf_admm as sa, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it would be ignored
rng = np.random.default_rng(0)
net = sa.Network()
half = rng.normal(size=(60, 60))
ids = [net.agent(sa.Quadratic(half @ half.T / 60 + 1e-3 * np.eye(60), rng.normal(size=60)).l1(1e-3)) for _ in range(60)]
for i in range(59):
    net.agree(ids[i], np.eye(60), ids[i + 1], np.eye(60), cost="l2", weight=1e-2)
print("solving", flush=True)
try:
    net.solve(tol=1e-300, iterations=10**9)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""


def test_control_c_interrupts_a_long_solve():
    child = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline().strip() == "solving"
        time.sleep(2.0)
        assert child.poll() is None, "still solving"
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=30)
    finally:
        child.kill()
    assert (out.strip(), child.returncode) == ("interrupted", 7)


def test_the_interpreter_runs_on_while_a_solve_runs():
    net, *_ = random_network(6, agents=40, d=30)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    net.solve(tol=1e-300, iterations=10**9, time_limit=0.5)
    end = time.perf_counter()
    done.set()
    thread.join()
    assert sum(begin + 0.05 < t < end - 0.05 for t in ticks) > 20


def test_a_panic_is_an_exception():
    from sheaf_admm import _native

    with pytest.raises(sa.InternalError, match="a panic on purpose"):
        _native._panic()
    assert random_network()[0].solve().solved, "and the next call works"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own():
    net, ids, *_ = random_network(7)
    batch = lambda: sa.solve_batch(net, q={ids[0]: np.ones((4, 3))}).all_x
    expected = batch()
    child = os.fork()
    if child == 0:
        os._exit(0 if (batch() == expected).all() else 1)
    for _ in range(200):
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.WEXITSTATUS(status) == 0
