"""The layer with its gradient against the same computation in plain torch (eager) and plain jax (jitted).

    python python/benchmarks/layer.py [--rounds 5] [--batch 128] [--cases maze,sudoku]

All sides run in one process, one after another in every round, on the same inputs and the same number of threads; the medians
over the rounds give the ratios, once of the time that passed and once of the CPU time of all threads, which other work on the
machine hardly changes. The results are compared first. The last column is what crossing the border costs: the time
of a call through torch beyond that of the same call on arrays. A second line splits the layer's time, and says for shared maps
how many operations its products and those of plain torch need, beside what a large product of torch reaches here.
"""

import argparse
import os
import statistics
import time

import numpy as np
import torch

import plain_torch
import sheaf_admm as sa
import sheaf_admm.torch as st

try:
    import jax
    import plain_jax
except ImportError:
    jax = None

# Graph, d_v, d_e, rank, iterations, batch: the sizes of the published models.
CASES = {
    "maze": (sa.Graph.grid(9, 9), 10, 5, 4, 27, 128),
    "maze, full maps": (sa.Graph.grid(9, 9), 10, 5, 0, 27, 128),
    "sudoku": (sa.Graph.sudoku(), 288, 32, 0, 20, 32),
}
STEPS = 5


def inputs(graph, d_v, d_e, rank, batch, seed=0):
    """Random problems like those of a model, float32."""
    rng = np.random.default_rng(seed)
    n, s = graph.agents, graph.slots
    maps = rng.normal(size=(s, d_e, d_v)) / np.sqrt(d_v)
    arrays = dict(
        q=rng.normal(size=(batch, n, d_v)),
        diag=rng.uniform(0.5, 1.5, size=(batch, n, d_v)),
        start=rng.normal(size=(batch, n, d_v)),
        rho=np.array(0.25),
        gamma=np.array(5.0 if rank else 2.0),
        lo=np.array(0.0),
    )
    if rank:
        arrays.update(
            base=maps,
            a=0.3 * rng.normal(size=(batch, n, s, d_e, rank)),
            b=rng.normal(size=(batch, n, s, d_v, rank)) / np.sqrt(d_v),
            l1=rng.uniform(0, 0.02, size=(batch, n, d_v)),
            hi=rng.uniform(0.5, 1.5, size=(batch, n, d_v)),
        )
    elif d_v > 100:
        arrays["maps"] = maps
    else:
        arrays["maps"] = maps + 0.1 * rng.normal(size=(batch, n, s, d_e, d_v))
    return {name: value.astype(np.float32) for name, value in arrays.items()}


def sides(name, batch):
    """What is timed: every side computes the gradient of Σ x² by all inputs and returns x and that of q."""
    graph, d_v, d_e, rank, iterations, usual = CASES[name]
    arrays = inputs(graph, d_v, d_e, rank, batch or usual)
    tensors = {k: torch.from_numpy(v).clone().requires_grad_(k != "lo") for k, v in arrays.items()}
    made = st.layer(graph, d_v, d_e, iterations, steps=STEPS)
    plain = plain_torch.make(graph, iterations, STEPS)
    wanted = [k for k in arrays if k != "lo"]

    def with_torch(solve):
        def run():
            for value in tensors.values():
                value.grad = None
            x = solve(**tensors)
            x.square().sum().backward()
            return x.detach().numpy(), tensors["q"].grad.numpy()

        return run

    def native():
        x = made.forward(arrays)
        return x[0], made.backward(arrays, 2 * x, wanted)["q"]

    found = {
        "layer": with_torch(lambda **given: st.solve(made, **given)),
        "arrays": native,
        "torch eager": with_torch(plain),
    }
    if jax is not None:
        solve = plain_jax.make(graph, iterations, STEPS)

        def loss(given):
            x = solve(**given)
            return (x * x).sum(), x

        both = jax.jit(jax.value_and_grad(loss, has_aux=True))
        given = {k: jax.numpy.asarray(v) for k, v in arrays.items()}

        def jitted():
            (_, x), grads = both(given)
            return np.asarray(x), np.asarray(jax.block_until_ready(grads)["q"])

        found["jax jitted"] = jitted
    return found


def compare(name, batch, rounds):
    """Medians of the seconds of every side: those that passed, and those of the CPU."""
    found = sides(name, batch)
    x, d_q = found["layer"]()
    for side, run in found.items():
        other, other_d = run()
        assert np.abs(other - x).max() < 2e-3 * np.abs(x).max(), f"{name}: {side} computes something else"
        assert np.linalg.norm(other_d - d_q) < 1e-2 * np.linalg.norm(d_q), f"{name}: {side} has another gradient"
    seconds = {side: [] for side in found}
    for _ in range(rounds):
        for side, run in found.items():
            begin = time.perf_counter(), time.process_time()
            run()
            seconds[side].append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return [{side: statistics.median(t[k] for t in times) for side, times in seconds.items()} for k in (0, 1)]


def parts(name, batch, rounds):
    """Median seconds of the layer's forward and backward pass, and 10⁹ operations of the products of layer and plain torch."""
    graph, d_v, d_e, rank, iterations, usual = CASES[name]
    batch = batch or usual
    arrays = inputs(graph, d_v, d_e, rank, batch)
    made = sa.Layer(graph, d_v, d_e, iterations, steps=STEPS)
    wanted, seconds = [k for k in arrays if k != "lo"], ([], [])
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        x = made.forward(arrays)
        between = time.perf_counter()
        made.backward(arrays, 2 * x, wanted)
        for times, span in zip(seconds, (between - begin, time.perf_counter() - between)):
            times.append(span)
    forward, backward = (statistics.median(times[1:]) for times in seconds)
    m = graph.slots * d_e
    rows = 2e-9 * batch * graph.agents * iterations
    # In the space of projections: one product with the maps in, one with their Gram matrix a step, one out. Backward solves
    # again; its reverse sweep has each of these products once for the states and once for the maps.
    layer = 4 * rows * (2 * m * d_v + STEPS * m * m)
    # Plain: the Laplacian is two products, the first residual has one more than the steps; backward doubles each product.
    plain = 3 * rows * 2 * (STEPS + 1) * m * d_v
    return forward, backward, layer if arrays.get("maps", np.empty(0)).ndim == 3 else None, plain


def peak():
    """10⁹ operations a second of a large product of torch."""
    a = torch.randn(2048, 2048)
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - begin)
    return 2e-9 * 2048**3 / min(seconds)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--batch", type=int, default=0)
    arguments.add_argument("--cases", default=",".join(name for name in CASES if "," not in name))
    arguments = arguments.parse_args()
    threads = f"{os.cpu_count()} cores, torch {torch.__version__} with {torch.get_num_threads()} threads"
    print(threads + (f", jax {jax.__version__}" if jax else ", no jax"))
    for name in arguments.cases.split(","):
        for what, times in zip(("time", "CPU "), compare(name, arguments.batch, arguments.rounds)):
            mine = times["layer"]
            others = [side for side in times if side not in ("layer", "arrays")]
            ratios = ", ".join(f"{side} takes {times[side] / mine:.1f} times as long" for side in others)
            border = 100 * (1 - times["arrays"] / mine)
            print(f"{name}, {what}: {mine * 1e3:.1f} ms a batch; {ratios}; border {border:.1f} %", flush=True)
        forward, backward, layer, plain = parts(name, arguments.batch, arguments.rounds)
        line = f"{name}, on arrays: forward {forward * 1e3:.1f} ms, backward {backward * 1e3:.1f} ms"
        if layer is not None:
            rate = layer / (forward + backward)
            line += f"; {layer:.0f} GFLOP at {rate:.0f} GFLOP/s, plain torch needs {plain:.0f}; a product of torch {peak():.0f} GFLOP/s"
        print(line, flush=True)


if __name__ == "__main__":
    main()
