"""Peak memory of recurrent message passing in plain jax, jitted, with the gradient of all its parameters.

    python python/benchmarks/messages.py maze|mnist|sudoku [--batch 128] [--steps 2]

The rounds alone, without encoder and decoder: directed messages, max or mean of them, gated update, a scan over the rounds. What
`sheaf bench train --experiment experiments/maze-mpnn-pm-max.toml` and the like print as peak is the whole training step.
"""

import argparse
import resource
import time

import jax
import jax.numpy as jnp
import numpy as np

import sheaf_admm as sa

# Graph, d_v, message width, rounds, aggregation: the sizes of the published models.
CASES = {
    "maze": (sa.Graph.grid(9, 9), 84, 42, 40, "max"),
    "mnist": (sa.Graph.grid(9, 9), 32, 24, 20, "mean"),
    "sudoku": (sa.Graph.sudoku(), 225, 32, 20, "max"),
}


def parameters(d, width, types):
    """Random parameters of one round."""
    rng = np.random.default_rng(0)
    matrix = lambda *shape: (rng.normal(size=shape) / np.sqrt(shape[-2])).astype(np.float32)
    layer = lambda rows, columns: (matrix(rows, columns), np.zeros(columns, np.float32))
    return dict(
        messages=(matrix(types, d, width), np.zeros((types, width), np.float32)),
        back=matrix(width, d),
        update_input=layer(2 * d, d),
        reset=layer(2 * d, d),
        update=layer(2 * d, d),
        candidate=layer(2 * d, d),
    )


def make(graph, rounds, aggregation):
    """The loss of parameters and states, `[agents, batch, d]`."""
    edges, n = graph.edges, graph.agents
    source = np.concatenate([edges[:, 0], edges[:, 2]])
    target = np.concatenate([edges[:, 2], edges[:, 0]])
    kind = np.concatenate([edges[:, 1], edges[:, 3]])
    count = np.maximum(np.bincount(target, minlength=n), 1).astype(np.float32)[:, None, None]
    norm = lambda x: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    dense = lambda x, layer: x @ layer[0] + layer[1]

    def loss(p, h):
        def one(hidden, _):
            weights, bias = p["messages"]
            sent = jnp.einsum("ebd,edm->ebm", hidden[source], weights[kind]) + bias[kind][:, None]
            if aggregation == "max":
                heard = jax.ops.segment_max(sent, target, n)
            else:
                heard = jax.ops.segment_sum(sent, target, n) / count
            given = dense(jnp.concatenate([norm(heard @ p["back"]), norm(h)], -1), p["update_input"])
            both = norm(jnp.concatenate([hidden, given], -1))
            reset, update = jax.nn.sigmoid(dense(both, p["reset"])), jax.nn.sigmoid(dense(both, p["update"]))
            new = jnp.tanh(dense(norm(jnp.concatenate([reset * hidden, given], -1)), p["candidate"]))
            return (1 - update) * new + update * hidden, None

        hidden, _ = jax.lax.scan(one, h, None, length=rounds)
        return (hidden * hidden).mean()

    return jax.jit(jax.value_and_grad(loss))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("task", choices=CASES)
    arguments.add_argument("--batch", type=int, default=128)
    arguments.add_argument("--steps", type=int, default=2)
    arguments = arguments.parse_args()
    graph, d, width, rounds, aggregation = CASES[arguments.task]
    h = np.random.default_rng(1).normal(size=(graph.agents, arguments.batch, d)).astype(np.float32)
    step, given = make(graph, rounds, aggregation), parameters(d, width, graph.slots)
    megabytes = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    before = megabytes()
    jax.block_until_ready(step(given, h))
    begin = time.perf_counter()
    for _ in range(arguments.steps):
        jax.block_until_ready(step(given, h))
    seconds = (time.perf_counter() - begin) / arguments.steps
    pace = f"{arguments.batch / seconds:.1f} samples/s"
    print(f"{arguments.task}, jax {jax.__version__}: peak {megabytes():.0f} MB, {before:.0f} MB of it before the first step; {pace}")


if __name__ == "__main__":
    main()
