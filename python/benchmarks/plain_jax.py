"""The layer's computation in plain jax: the same as `plain_torch`, jitted, with a scan over the iterations."""

import jax
import jax.numpy as jnp


def make(graph, iterations, steps):
    """A function of the same inputs as `sheaf_admm.jax.solve`, for soft consensus and diagonal objectives."""
    edges, slots = graph.edges, graph.slots
    first, second = edges[:, 0] * slots + edges[:, 1], edges[:, 2] * slots + edges[:, 3]

    def solve(q, diag, rho, gamma, maps=None, base=None, a=None, b=None, l1=None, lo=None, hi=None, start=None):
        if maps is None:
            maps = base + jnp.einsum("...er,...vr->...ev", a, b) / a.shape[-1]
        kind = "sev" if maps.ndim == 3 else "bnsev"

        def laplacian(z):
            y = jnp.einsum(f"{kind},bnv->bnse", maps, z)
            rows = y.reshape(y.shape[0], -1, y.shape[-1])
            r = rows[:, first] - rows[:, second]
            s = jnp.zeros_like(rows).at[:, first].add(r).at[:, second].add(-r).reshape(y.shape)
            return jnp.einsum(f"{kind},bnse->bnv", maps, s)

        dot = lambda x, y: (x * y).sum(axis=(1, 2), keepdims=True)
        curvature = diag + rho

        def step(state, _):
            z, u, _ = state
            t = (rho * (z - u) - q) / curvature
            if l1 is not None:
                t = jnp.sign(t) * jnp.maximum(jnp.abs(t) - l1 / curvature, 0)
            x = t if lo is None else jnp.maximum(t, lo)
            x = x if hi is None else jnp.minimum(x, hi)
            w = x + u
            z = w
            r = rho * w - (gamma * laplacian(z) + rho * z)
            p, c = r, dot(r, r)
            for _ in range(steps):
                k = gamma * laplacian(p) + rho * p
                alpha = c / (dot(p, k) + 1e-8)
                z, r = z + alpha * p, r - alpha * k
                c, before = dot(r, r), c
                p = r + c / (before + 1e-8) * p
            return (z, u + x - z, x), None

        z = jnp.zeros_like(q) if start is None else start
        (_, _, x), _ = jax.lax.scan(step, (z, jnp.zeros_like(q), jnp.zeros_like(q)), None, length=iterations)
        return x

    return solve
