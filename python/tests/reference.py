"""Sheaf ADMM in plain numpy, for comparison: dense matrices, no line shared with the library."""

import numpy as np


def coboundary(edges, maps):
    """F of one sample, from maps [agents, slots, d_e, d_v] and edges [E, 4]."""
    agents, _, d_e, d_v = maps.shape
    f = np.zeros((len(edges) * d_e, agents * d_v), dtype=maps.dtype)
    for e, (u, slot_u, v, slot_v) in enumerate(edges):
        rows = slice(e * d_e, (e + 1) * d_e)
        f[rows, u * d_v : (u + 1) * d_v] += maps[u, slot_u]
        f[rows, v * d_v : (v + 1) * d_v] -= maps[v, slot_v]
    return f


def full_maps(arrays, agents, samples, slots):
    """Maps [samples, agents, slots, d_e, d_v] from any form a layer takes."""
    if "maps" in arrays:
        maps = arrays["maps"]
    else:
        rank = arrays["a"].shape[-1]
        scale = arrays.get("scale", 1.0 / rank)
        maps = arrays["base"] + scale * np.einsum("...er,...vr->...ev", arrays["a"], arrays["b"])
    if "index" in arrays:
        return maps[np.asarray(arrays["index"])]
    return np.broadcast_to(maps, (samples, agents, slots, *maps.shape[-2:]))


def cg(apply, b, z, steps, guard=1e-8):
    """So many steps of conjugate gradients."""
    r = b - apply(z)
    p, c = r.copy(), r @ r
    for _ in range(steps):
        q = apply(p)
        a = c / (p @ q + guard)
        z, r = z + a * p, r - a * q
        c, before = r @ r, c
        p = r + c / (before + guard) * p
    return z


def solve(edges, slots, arrays, iterations, *, hard=False, consensus="cg", steps=5, relax=1.0):
    """All proposals x, [iterations, batch, agents, d_v]."""
    q = arrays["q"]
    samples, agents, d_v = q.shape
    maps = full_maps(arrays, agents, samples, slots)
    rho = np.broadcast_to(np.asarray(arrays["rho"]), (agents,)) if np.ndim(arrays["rho"]) else None
    every = np.repeat(rho, d_v) if rho is not None else np.full(agents * d_v, float(arrays["rho"]))
    out = np.zeros((iterations, *q.shape), dtype=q.dtype)
    for s in range(samples):
        f = coboundary(edges, maps[s])
        lap = f.T @ f
        z = arrays["start"][s].ravel().copy() if "start" in arrays else np.zeros(agents * d_v, dtype=q.dtype)
        u = np.zeros_like(z)
        for k in range(iterations):
            x = prox(arrays, s, every, z - u)
            out[k, s] = x.reshape(agents, d_v)
            mixed = relax * x + (1 - relax) * z
            w = mixed + u
            if hard and consensus == "cg":
                system = lap + 1e-5 * np.eye(len(z))
                new = w - cg(lambda v: system @ v, lap @ w, w - z, steps)
            elif hard:
                new = w - np.linalg.pinv(f) @ (f @ w)
            elif consensus == "cg":
                system = arrays["gamma"] * lap + np.diag(every)
                new = cg(lambda v: system @ v, every * w, w.copy(), steps)
            else:
                new = np.linalg.solve(arrays["gamma"] * lap + np.diag(every), every * w)
            u = u + mixed - new
            z = new
    return out


def prox(arrays, s, rho, v):
    """The x-update of all agents of sample s."""
    q = arrays["q"][s].ravel()
    if "quad" in arrays:
        agents, d_v = arrays["q"].shape[1:]
        x = np.zeros_like(v)
        for i in range(agents):
            own = slice(i * d_v, (i + 1) * d_v)
            x[own] = np.linalg.solve(arrays["quad"][s, i] + np.diag(rho[own]), rho[own] * v[own] - q[own])
        return x
    of = lambda name, default: (
        default if name not in arrays else np.broadcast_to(arrays[name], arrays["q"].shape)[s].ravel()
    )
    a = of("diag", 0.0) + of("l2", 0.0) + rho
    t = (rho * v - q) / a
    t = np.sign(t) * np.maximum(np.abs(t) - of("l1", 0.0) / a, 0.0)
    return np.minimum(np.maximum(t, of("lo", -np.inf)), of("hi", np.inf))
