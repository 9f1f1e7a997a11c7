"""Sheaf-constrained ADMM: solve problems of many agents, and differentiate through the solve.

* `Network`, `Quadratic`, … solve problems of one's own.
* `load` gives trained models; `maze`, `sudoku`, `mnist` data for them; `train` trains them.
* `sheaf_admm.torch` and `sheaf_admm.jax` have the layer; `Layer` is the same on numpy arrays.

>>> import numpy as np, sheaf_admm as sa
>>> net = sa.Network()
>>> a = net.agent(sa.Quadratic(np.eye(2), np.array([-1.0, -7.0])))
>>> b = net.agent(sa.Quadratic(np.eye(3), np.array([-2.0, 3.0, -1.0])))
>>> edge = net.agree(a, np.array([[1.0, 0.0]]), b, np.array([[1.0, 0.0, 0.0]]), offset=np.array([0.5]))
>>> sol = net.solve(tol=1e-9)
>>> sol.status, sol.x(a).round(6).tolist()
('solved', [1.75, 7.0])
"""

from . import maze, mnist, sudoku
from ._batch import Batch, solve_batch
from ._errors import Error, InternalError
from ._models import read_metrics, train
from ._native import (
    Agent,
    Ball,
    Edge,
    Gradient,
    Graph,
    Huber,
    Layer,
    Logistic,
    Model,
    Network,
    Objective,
    Quadratic,
    SecondOrderCone,
    Settings,
    Simplex,
    Solution,
    Solver,
    State,
    __version__,
    load,
    set_threads,
)

__all__ = [
    "Agent",
    "Ball",
    "Batch",
    "Edge",
    "Error",
    "Gradient",
    "Graph",
    "Huber",
    "InternalError",
    "Layer",
    "Logistic",
    "Model",
    "Network",
    "Objective",
    "Quadratic",
    "SecondOrderCone",
    "Settings",
    "Simplex",
    "Solution",
    "Solver",
    "State",
    "__version__",
    "load",
    "maze",
    "mnist",
    "read_metrics",
    "set_threads",
    "solve_batch",
    "sudoku",
    "train",
]
