"""Steps and CPU time of preconditioned conjugate gradients on the soft consensus system A = I + kappa L.

    python tools/reference/preconditioners.py [AGENTS]

needs numpy, scipy, pyamg and ilupp. L is the Laplacian of a graph with unit weights: one of the three numbers that the agents of
`sheaf bench problems` share. The graphs are those of that command, drawn anew: eight nearest neighbours in the plane, and random
edges of degree 10. `steps` reduce the residual of a random right side by 0.03, as one consensus step inside ADMM does.
"""

import sys
import time

import ilupp
import numpy as np
import pyamg
from scipy import sparse
from scipy.spatial import cKDTree


def plane(n, rng):
    points = rng.random((n, 2))
    _, near = cKDTree(points).query(points, 9)
    return np.repeat(np.arange(n), 8), near[:, 1:].ravel()


def regular(n, rng):
    rings = [rng.permutation(n) for _ in range(5)]
    return np.concatenate(rings), np.concatenate([np.roll(r, -1) for r in rings])


def laplacian(n, a, b):
    links = sparse.coo_matrix((np.ones(len(a)), (a, b)), shape=(n, n)).tocsr()
    links = ((links + links.T) > 0).astype(float)
    links.setdiag(0)
    links.eliminate_zeros()
    return (sparse.diags(np.asarray(links.sum(1)).ravel()) - links).tocsr()


def solve(a, b, apply, reduce):
    x, r = np.zeros_like(b), b.copy()
    z = apply(r)
    p, c = z.copy(), r @ z
    goal, steps = reduce**2 * c, 0
    while c > goal:
        q = a @ p
        step = c / (p @ q)
        x += step * p
        r -= step * q
        z = apply(r)
        c, last = r @ z, c
        p = z + (c / last) * p
        steps += 1
    return steps


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rng = np.random.default_rng(1)
    print(f"{n} numbers; CPU seconds of the preconditioner, and steps with CPU seconds of one solve")
    for name, graph in [("plane", plane), ("regular", regular)]:
        lap = laplacian(n, *graph(n, rng))
        for kappa in [1, 10, 100, 1e4]:
            a = (sparse.identity(n) + kappa * lap).tocsr()
            b = rng.normal(size=n)
            inverse = 1 / a.diagonal()

            def diagonal():
                return lambda r: inverse * r

            def cholesky():
                factor = ilupp.IChol0Preconditioner(a)
                return lambda r: factor @ r

            def multigrid():
                levels = pyamg.smoothed_aggregation_solver(a, max_coarse=500)
                return levels.aspreconditioner(cycle="V").matvec

            for kind, make in [("diagonal", diagonal), ("ic(0)", cholesky), ("amg", multigrid)]:
                began = time.process_time()
                apply = make()
                made = time.process_time()
                steps = solve(a, b, apply, 0.03)
                took = time.process_time() - made
                print(f"{name:8} kappa {kappa:7g} {kind:9} made {made - began:6.2f} s, {steps:4} steps {took:6.2f} s", flush=True)


main()
