"""Makes the fixtures of crates/sheaf-admm/tests/fixtures: small problems solved and differentiated in f64.

    python make_fixtures.py           writes them
    python make_fixtures.py --check   computes them again and compares with what is there

One file per case, named GRAPH_MAPS_OBJECTIVE_SOLVER_MODE. Every file holds

    stalks [N], edges [E, 2], edge_stalks [E], slots [E, 2]     the graph (slots are -1 where there are none)
    in/NAME                                                     the inputs; see graphs.py and updates.py
    x, z, u [K, state]; primal, dual [K, N]; consistency [K]    the run: K = 6, alpha = 1.6
    loss; grad/NAME                                             mean of x^2 over the last two iterates; its gradient

State vectors are the agents' states one after the other. Q is differentiated entry by entry, as if it were not
symmetric. The script uses nothing but numpy and shares no line with the library it checks.
"""

import os
import sys

# The matrices are small: threads would only wait for each other. Read when numpy is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import admm
import tensors
from graphs import coboundary, grid8, irregular
from updates import diagonal_margins

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "..", "..", "crates", "sheaf-admm", "tests", "fixtures")

# Graph, maps, objective, solver, mode. Each update, each kind of maps and each graph appears at least twice.
CASES = [
    ("grid", "shared", "diagonal", "cg", "soft"),
    ("grid", "shared", "diagonal", "cg", "hard"),
    ("grid", "table", "diagonal", "cg", "soft"),
    ("grid", "table", "tether", "descent", "hard"),
    ("grid", "lowrank", "dense", "cg", "hard"),
    ("grid", "lowrank", "diagonal", "descent", "soft"),
    ("grid", "shared", "dense", "exact", "hard"),
    ("grid", "shared", "tether", "exact", "soft"),
    ("irregular", "edgewise", "dense", "cg", "soft"),
    ("irregular", "edgewise", "diagonal", "cg", "hard"),
    ("irregular", "edgewise", "tether", "descent", "soft"),
    ("irregular", "edgewise", "diagonal", "descent", "hard"),
    ("irregular", "edgewise", "diagonal", "exact", "soft"),
    ("irregular", "edgewise", "dense", "exact", "hard"),
]


def draw_maps(rng, graph, kind):
    """Random maps of about unit row norm."""
    agents, d_v, d_e, rank = len(graph.stalks), graph.stalks[0], graph.edge_stalks[0], 2
    normal = lambda *shape: rng.normal(size=shape) / np.sqrt(d_v)
    if kind == "edgewise":
        count = lambda side: sum(d_e * graph.stalks[e[side]] for e, d_e in zip(graph.edges, graph.edge_stalks))
        return {"maps_u": normal(count(0)), "maps_v": normal(count(1))}
    if kind == "table":
        stack_of = np.array([0, 1, 2, 1, 0, 2, 2, 1, 0], np.int32)
        return {"stacks": normal(3, 8, d_e, d_v), "stack_of": stack_of}
    maps = {"maps": normal(8, d_e, d_v)}
    if kind == "lowrank":
        maps |= {"A": 0.3 * normal(agents, 8, d_e, rank), "B": normal(agents, 8, d_v, rank)}
    return maps


def draw_objective(rng, graph, objective):
    n = graph.state_len()
    if objective == "tether":
        return {"beta": np.array(0.8), "target": rng.normal(size=n)}
    if objective == "dense":
        roots = [rng.normal(size=(d, d)) for d in graph.stalks]
        blocks = [root @ root.T / len(root) + 0.1 * np.eye(len(root)) for root in roots]
        return {"Q": np.concatenate([b.ravel() for b in blocks]), "q": rng.normal(size=n)}
    return {
        "D": rng.uniform(0.2, 1.5, n),
        "q": 0.5 * rng.normal(size=n),
        "l1": rng.uniform(0.02, 0.2, n),
        "l2": np.array(0.05),
        "lo": -rng.uniform(0.1, 0.6, n),
        "hi": rng.uniform(0.1, 0.6, n),
    }


def draw_inputs(seed, graph, case):
    rng = np.random.default_rng(seed)
    inputs = draw_maps(rng, graph, case["maps"]) | draw_objective(rng, graph, case["objective"])
    inputs |= {"z_start": rng.normal(size=graph.state_len()), "rho": np.array(0.4)}
    if case["mode"] == "soft":
        inputs["gamma"] = np.array(1.7)
    if case["solver"] == "descent":
        inputs["eta"] = np.array(0.02)
    return inputs


def smooth_enough(graph, case, inputs):
    """True when no coordinate of any iteration is near a kink and every piece of the closed form is in use."""
    if case["objective"] != "diagonal":
        return True
    seen = []
    admm.run(graph, case, inputs, watch=lambda v, rho: seen.append(diagonal_margins(inputs, v, rho)))
    margins, pieces = (np.array(column) for column in zip(*seen))
    return margins.min() > 1e-4 and set(pieces.ravel()) == {0, 1, 2, 3}


def build(number, parts):
    """The arrays and the description of one case."""
    case = dict(zip(("graph", "maps", "objective", "solver", "mode"), parts))
    graph = grid8(3, 3, 5, 2) if case["graph"] == "grid" else irregular()
    seed = 1000 * (number + 1)
    while not smooth_enough(graph, case, inputs := draw_inputs(seed, graph, case)):
        seed += 1
    F = coboundary(graph, case["maps"], inputs).real
    assert np.linalg.matrix_rank(F) == len(F) < F.shape[1], "the exact projection needs independent rows and a kernel"
    arrays = {"stalks": np.array(graph.stalks, np.int32), "edge_stalks": np.array(graph.edge_stalks, np.int32)}
    arrays |= {"edges": graph.edges, "slots": graph.slots}
    arrays |= {f"in/{name}": value for name, value in inputs.items()}
    arrays |= admm.trace(graph, case, inputs)
    arrays["loss"] = admm.loss(graph, case, inputs).real
    arrays |= {f"grad/{name}": value for name, value in admm.gradients(graph, case, inputs).items()}
    origin = "tools/reference/make_fixtures.py; gradients by complex step, f64"
    return arrays, case | {"seed": str(seed), "origin": origin}


def difference(new, old):
    """The largest relative difference, or infinity where names or shapes differ."""
    if {n: np.shape(a) for n, a in new.items()} != {n: np.shape(a) for n, a in old.items()}:
        return np.inf
    return max(np.abs(new[n] - old[n]).max() / max(np.abs(old[n]).max(), 1e-300) for n in old)


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(f"unknown arguments {sys.argv[1:]}: only --check is known")
    os.makedirs(FIXTURES, exist_ok=True)
    failed = False
    for number, parts in enumerate(CASES):
        path = os.path.join(FIXTURES, "_".join(parts) + ".safetensors")
        arrays, metadata = build(number, parts)
        if check:
            off = difference(arrays, tensors.read(path)[0])
            failed |= off > 1e-11
            print(f"{'_'.join(parts)}: off by {off:.1e}")
        else:
            tensors.write(path, arrays, metadata)
            print(f"{'_'.join(parts)}: seed {metadata['seed']}, {os.path.getsize(path)} bytes")
    sys.exit("the fixtures differ" if failed else 0)


if __name__ == "__main__":
    main()
