"""Many variants of one network."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np

from ._errors import mistake
from ._native import Gradient, Network, Solution, Solver, backward_all


class Batch(Sequence):
    """Solutions of variants of one network. `batch[i]` is a `Solution`."""

    def __init__(self, solutions: Sequence[Solution], threads: Optional[int] = None):
        self._solutions = list(solutions)
        self._threads = threads

    def __len__(self) -> int:
        return len(self._solutions)

    def __getitem__(self, i):
        return self._solutions[i]

    def __repr__(self) -> str:
        return f"Batch({len(self)} variants, {sum(self.solved)} solved)"

    @property
    def status(self) -> list:
        """How each solve ended."""
        return [solution.status for solution in self._solutions]

    @property
    def solved(self) -> np.ndarray:
        """Whether each was solved, `[variants]`."""
        return np.array([solution.solved for solution in self._solutions])

    @property
    def all_x(self) -> np.ndarray:
        """x of all agents, one after another, `[variants, numbers]`."""
        return np.stack([solution.all_x for solution in self._solutions])

    def x(self, agent: Any) -> np.ndarray:
        """x of an agent, `[variants, d]`."""
        return np.stack([solution.x(agent) for solution in self._solutions])

    def price(self, edge: Any) -> np.ndarray:
        """The price of an edge, `[variants, rows]`."""
        return np.stack([solution.price(edge) for solution in self._solutions])

    def backward(self, dx: Union[Mapping, np.ndarray]) -> "BatchGradient":
        """The gradient of a loss, given that of x: `[variants, numbers]`, or by agent `[variants, d]`."""
        if isinstance(dx, Mapping):
            seed = np.zeros_like(self.all_x)
            sizes = [0]
            for agent in range(self._solutions[0].agents):
                sizes.append(sizes[-1] + len(self._solutions[0].x(agent)))
            for agent, values in dx.items():
                i = agent.__index__()
                part = seed[:, sizes[i] : sizes[i + 1]]
                values = np.asarray(values, dtype=np.float64)
                if values.shape not in ((), part.shape):
                    raise mistake("Shape", f"dx of agent {i}", str(list(part.shape)), list(values.shape))
                part[:] = values
            dx = seed
        return BatchGradient(backward_all(self._solutions, dx, self._threads))


class BatchGradient(Sequence):
    """The gradients of variants. `gradient[i]` is a `Gradient`."""

    def __init__(self, gradients: Sequence[Gradient]):
        self._gradients = list(gradients)

    def __len__(self) -> int:
        return len(self._gradients)

    def __getitem__(self, i):
        return self._gradients[i]

    def __repr__(self) -> str:
        return f"BatchGradient({len(self)} variants)"

    def agent(self, agent: Any) -> dict:
        """Of an agent's objective, as `Gradient.agent`, every array `[variants, …]`; sparse matrices in a list."""
        return _stacked([gradient.agent(agent) for gradient in self._gradients])

    def edge(self, edge: Any) -> dict:
        """Of an edge, as `Gradient.edge`."""
        return _stacked([gradient.edge(edge) for gradient in self._gradients])


def _stacked(parts: Sequence[dict]) -> dict:
    sparse = {key for key, value in parts[0].items() if hasattr(value, "tocoo")}
    join = {key: (list if key in sparse else np.stack) for key in parts[0]}
    return {key: join[key]([part[key] for part in parts]) for key in parts[0]}


def solve_batch(
    problem: Union[Network, Solver],
    *,
    q: Optional[Mapping] = None,
    equal: Optional[Mapping] = None,
    at_most: Optional[Mapping] = None,
    bounds: Optional[Mapping] = None,
    offset: Optional[Mapping] = None,
    threads: Optional[int] = None,
    **settings: Any,
) -> Batch:
    """Solves variants of a network in parallel.

    Each of `q`, `equal`, `at_most` (by agent) and `offset` (by edge) is a dictionary of arrays `[variants, …]`, and
    `bounds` (by agent) of pairs of them. The settings are those of `Network.solve`. The results do not depend on the number
    of threads.

    >>> import numpy as np, sheaf_admm as sa
    >>> net = sa.Network()
    >>> a, b = (net.agent(sa.Quadratic([[1.0]], [0.0])) for _ in range(2))
    >>> _ = net.agree(a, [[1.0]], b, [[1.0]])
    >>> batch = sa.solve_batch(net, q={a: np.array([[-2.0], [-4.0]])}, tol=1e-9)
    >>> batch.x(b).round(6).ravel().tolist()
    [1.0, 2.0]
    >>> batch.backward({b: 1.0}).agent(a)["q"].round(6).ravel().tolist()
    [-0.5, -0.5]
    """
    solver = problem.solver(**settings) if isinstance(problem, Network) else problem
    if settings and solver is problem:
        raise mistake("Unsupported", "settings", "none with a solver, which has its own", ", ".join(settings))
    changes = dict(q=q, equal=equal, at_most=at_most, bounds=bounds, offset=offset)
    return Batch(solver.solve_variants(**changes, threads=threads), threads)
