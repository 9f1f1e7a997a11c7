"""The x-updates and the z-updates, as formulas on whole state vectors.

Everything is written so that complex inputs give complex outputs with the right derivative: products never
conjugate, and comparisons look at the real part. That is all the complex step (see `admm.py`) asks for.

Nesterov descent, in the form that was checked against the published code: start z = w, m = 0, then T times

    g = grad E(z);   m = mu m + g;   z = z - eta (mu m + g)

with E = 1/2 |F z|^2 (hard) or gamma/2 |F z|^2 + rho/2 |z - w|^2 (soft). In the textbook's pair of sequences
p' = y - eta grad E(y), y' = p' + mu (p' - p), the answer is the extrapolated y, not p.
"""

import numpy as np

GUARD = 1e-8  # added to both denominators of CG
TIKHONOV = 1e-5  # makes the hard CG's matrix definite
MOMENTUM = 0.9


def diagonal(graph, inputs, v, rho):
    """argmin 1/2 D x^2 + q x + l1 |x| + l2/2 x^2 + rho/2 (x - v)^2 with lo <= x <= hi, per coordinate."""
    a = inputs["D"] + inputs["l2"] + rho
    t, threshold = (rho * v - inputs["q"]) / a, inputs["l1"] / a
    sign = np.where(t.real > 0, 1.0, -1.0)
    soft = np.where((sign * t).real > threshold.real, t - sign * threshold, 0)
    soft = np.where(soft.real < inputs["lo"].real, inputs["lo"], soft)
    return np.where(soft.real > inputs["hi"].real, inputs["hi"], soft)


def diagonal_margins(inputs, v, rho):
    """How far each coordinate is from the nearest kink of `diagonal`, and which piece it lies on."""
    a = inputs["D"] + inputs["l2"] + rho
    t, threshold = ((rho * v - inputs["q"]) / a).real, (inputs["l1"] / a).real
    soft = np.sign(t) * np.maximum(np.abs(t) - threshold, 0)
    lo, hi = inputs["lo"].real, inputs["hi"].real
    margin = np.minimum(np.abs(np.abs(t) - threshold), np.minimum(np.abs(soft - lo), np.abs(soft - hi)))
    piece = np.where(soft < lo, 0, np.where(soft > hi, 3, np.where(soft == 0, 1, 2)))
    return margin, piece


def tether(graph, inputs, v, rho):
    """argmin beta/2 |x - target|^2 + rho/2 |x - v|^2."""
    beta = inputs["beta"]
    return (beta * inputs["target"] + rho * v) / (beta + rho)


def dense(graph, inputs, v, rho):
    """(Q_i + rho I) x_i = rho v_i - q_i, with the Q_i one after the other, row-major."""
    x, taken = np.zeros_like(v), 0
    for agent, d in enumerate(graph.stalks):
        block = graph.block(agent)
        q_matrix = inputs["Q"][taken : taken + d * d].reshape(d, d)
        taken += d * d
        x[block] = np.linalg.solve(q_matrix + rho * np.eye(d), rho * v[block] - inputs["q"][block])
    return x


X_UPDATES = {"diagonal": diagonal, "tether": tether, "dense": dense}


def conjugate_gradient(matrix, right, start, steps):
    """Exactly `steps` steps, each with its guarded denominators."""
    x, r = start, right - matrix @ start
    p, c = r, r @ r
    for _ in range(steps):
        q = matrix @ p
        a = c / (p @ q + GUARD)
        x, r = x + a * p, r - a * q
        c_new = r @ r
        p = r + (c_new / (c + GUARD)) * p
        c = c_new
    return x


def cg(F, mode, inputs, w, z_prev, rho, steps=5):
    laplacian, identity = F.T @ F, np.eye(len(w))
    if mode == "soft":
        return conjugate_gradient(inputs["gamma"] * laplacian + rho * identity, rho * w, w, steps)
    # The start keeps its kernel component, so this answer is inexact on purpose.
    return w - conjugate_gradient(laplacian + TIKHONOV * identity, laplacian @ w, w - z_prev, steps)


def descent(F, mode, inputs, w, z_prev, rho, steps=10):
    laplacian = F.T @ F
    z, m = w, 0 * w
    for _ in range(steps):
        g = laplacian @ z if mode == "hard" else inputs["gamma"] * (laplacian @ z) + rho * (z - w)
        m = MOMENTUM * m + g
        z = z - inputs["eta"] * (MOMENTUM * m + g)
    return z


def exact(F, mode, inputs, w, z_prev, rho):
    if mode == "soft":
        return np.linalg.solve(inputs["gamma"] * (F.T @ F) + rho * np.eye(len(w)), rho * w)
    # F must have independent rows: then F F^T is invertible and the projection is this.
    return w - F.T @ np.linalg.solve(F @ F.T, F @ w)


Z_UPDATES = {"cg": cg, "descent": descent, "exact": exact}
