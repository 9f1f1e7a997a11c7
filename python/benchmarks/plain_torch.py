"""The layer's computation in plain torch, as one would write it: batched products, gathers along edges, autograd."""

import torch


def make(graph, iterations, steps):
    """A function of the same inputs as `sheaf_admm.torch.solve`, for soft consensus and diagonal objectives."""
    edges = torch.from_numpy(graph.edges)
    slots = graph.slots
    first, second = edges[:, 0] * slots + edges[:, 1], edges[:, 2] * slots + edges[:, 3]

    def solve(q, diag, rho, gamma, maps=None, base=None, a=None, b=None, l1=None, lo=None, hi=None, start=None):
        if maps is None:
            maps = base + (a @ b.transpose(-1, -2)) / a.shape[-1]
        shared = maps.dim() == 3

        def laplacian(z):
            y = torch.einsum("sev,bnv->bnse", maps, z) if shared else torch.einsum("bnsev,bnv->bnse", maps, z)
            rows = y.reshape(y.shape[0], -1, y.shape[-1])
            r = rows[:, first] - rows[:, second]
            s = torch.zeros_like(rows).index_add(1, first, r).index_add(1, second, -r).reshape(y.shape)
            return torch.einsum("sev,bnse->bnv", maps, s) if shared else torch.einsum("bnsev,bnse->bnv", maps, s)

        dot = lambda x, y: (x * y).sum(dim=(1, 2), keepdim=True)
        z = torch.zeros_like(q) if start is None else start
        u, curvature = torch.zeros_like(q), diag + rho
        for _ in range(iterations):
            t = (rho * (z - u) - q) / curvature
            if l1 is not None:
                t = torch.sign(t) * torch.relu(t.abs() - l1 / curvature)
            x = t if lo is None else torch.maximum(t, torch.as_tensor(lo, dtype=t.dtype))
            x = x if hi is None else torch.minimum(x, hi)
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
            u = u + x - z
        return x

    return solve
