"""The iteration, its loss, and gradients by complex step.

    x = prox(z - u);  x~ = alpha x + (1 - alpha) z;  z' = consensus(x~ + u, z);  u' = u + x~ - z'

The gradient of the loss by one input number t is Im f(t + i h) / h with h = 1e-30. Nothing is subtracted, so nothing
cancels: the result carries full double precision (relative error near 1e-15), away from kinks.
"""

import numpy as np

from graphs import coboundary
from updates import X_UPDATES, Z_UPDATES

K = 6
ALPHA = 1.6
WINDOW = 2
STEP = 1e-30


def run(graph, case, inputs, watch=None):
    """All K iterates x, z, u, [K, state], complex. `watch` sees every (v, rho) that the x-update sees."""
    F = coboundary(graph, case["maps"], inputs)
    rho = inputs["rho"]
    z = inputs["z_start"] + 0j
    u = np.zeros_like(z)
    history = []
    for _ in range(K):
        v = z - u
        if watch is not None:
            watch(v, rho)
        x = X_UPDATES[case["objective"]](graph, inputs, v, rho)
        relaxed = ALPHA * x + (1 - ALPHA) * z
        w = relaxed + u
        z_new = Z_UPDATES[case["solver"]](F, case["mode"], inputs, w, z, rho)
        u = u + relaxed - z_new
        history.append((x, z_new, u, relaxed - z_new, rho * (z_new - z), F @ z_new))
        z = z_new
    return [np.array(column) for column in zip(*history)]


def loss(graph, case, inputs):
    """Mean of x^2 over the last WINDOW iterates."""
    x = run(graph, case, inputs)[0][-WINDOW:]
    return (x * x).sum() / x.size


def gradients(graph, case, inputs):
    """d loss / d every floating-point input, in that input's shape."""
    result = {}
    for name, value in inputs.items():
        if value.dtype.kind != "f":
            continue
        gradient = np.zeros(value.shape)
        for index in np.ndindex(*value.shape):
            moved = value.astype(complex)
            moved[index] += 1j * STEP
            gradient[index] = loss(graph, case, {**inputs, name: moved}).imag / STEP
        result[name] = gradient
    return result


def trace(graph, case, inputs):
    """What a fixture stores of a run: iterates, residuals per agent, consistency."""
    x, z, u, primal, dual, edge = (array.real for array in run(graph, case, inputs))
    agents = range(len(graph.stalks))
    norms = lambda rows: np.array([[np.linalg.norm(row[graph.block(i)]) for i in agents] for row in rows])
    consistency = np.sqrt((edge**2).mean(axis=1) + 1e-6)
    return {"x": x, "z": z, "u": u, "primal": norms(primal), "dual": norms(dual), "consistency": consistency}
