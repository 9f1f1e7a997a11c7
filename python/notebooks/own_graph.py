# %% [markdown]
# # Own graph, own agents
#
# Eight robots keep a formation: a `networkx` graph says who sees whom, and every edge says how far apart the two should be.
# Each robot has a place it wants to be at and may not leave its room: a quadratic with bounds. Two robots are joined by a rod
# (a hard edge); all others try (soft edges).

# %%
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import sheaf_admm as sa

graph = nx.cycle_graph(8)
graph.add_edge(0, 4)
angle = 2 * np.pi * np.arange(8) / 8
shape = 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
wanted = shape + np.random.default_rng(1).normal(scale=0.9, size=shape.shape)

# %%
net = sa.Network()
robots = {
    node: net.agent(sa.Quadratic(np.eye(2), -wanted[node]).bounds([-2.2, -2.2], [2.2, 2.2])) for node in graph.nodes
}
edges = {}
for a, b in graph.edges:
    rod = (a, b) == (0, 4)
    edges[a, b] = net.agree(
        robots[a], np.eye(2), robots[b], np.eye(2), offset=shape[a] - shape[b], cost="hard" if rod else "soft", weight=2.0
    )
sol = net.solve(tol=1e-10)
places = np.array([sol.x(robot) for robot in robots.values()])
print(sol, "residuals", {name: f"{value:.1e}" for name, (value, _) in sol.residuals.items()})
assert sol.solved and np.abs(places).max() <= 2.2 + 1e-8


# %% [markdown]
# The same problem as one quadratic program, solved by projected gradient descent on all coordinates at once, for comparison; the
# two ends of the rod move together.


# %%
def by_hand(steps=20000, rate=0.05):
    """Projected gradient descent; the two ends of the rod move together."""
    x = wanted.copy()
    rod = shape[0] - shape[4]
    for _ in range(steps):
        slope = x - wanted
        for a, b in graph.edges:
            if (a, b) != (0, 4):
                gap = 2.0 * (x[a] - x[b] - (shape[a] - shape[b]))
                slope[a] += gap
                slope[b] -= gap
        together = (slope[0] + slope[4]) / 2
        slope[0] = slope[4] = together
        x = x - rate * slope
        centre = np.clip((x[0] + x[4] + rod) / 2, np.maximum(-2.2, -2.2 + rod), np.minimum(2.2, 2.2 + rod))
        x = np.clip(x, -2.2, 2.2)
        x[0], x[4] = centre, centre - rod
    return x


assert np.abs(by_hand() - places).max() < 1e-6

# %% [markdown]
# How much would the formation change if a robot wanted to be elsewhere? `backward` answers for everything at once: here the
# gradient of robot 2's height.

# %%
grad = sol.backward({robots[2]: [0.0, 1.0]})
pull = np.array([-grad.agent(robot)["q"] for robot in robots.values()])
print("robot 2 follows itself by", pull[2, 1].round(3), "and robot 3 by", pull[3, 1].round(3))
assert pull[2, 1] > pull[6, 1] >= 0

# %% [markdown]
# And a batch: a hundred days with other wishes, solved in parallel.

# %%
days = wanted + np.random.default_rng(2).normal(scale=0.5, size=(100, 8, 2))
batch = sa.solve_batch(net, q={robot: -days[:, node] for node, robot in robots.items()}, tol=1e-8)
assert batch.solved.all()

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), constrained_layout=True)
for robot in robots.values():
    left.plot(*batch.x(robot).T, ".", color="0.8", markersize=3, zorder=0)
for a, b in graph.edges:
    left.plot(*places[[a, b]].T, "-", color="k" if (a, b) == (0, 4) else "tab:blue")
left.plot(*wanted.T, "x", color="tab:red", label="wanted")
left.plot(*places.T, "o", color="tab:blue", label="agreed")
arrows = dict(color="tab:orange", width=0.006, angles="xy", scale_units="xy", scale=0.5)
left.quiver(*places.T, *pull.T, label="pull on robot 2", **arrows)
left.add_patch(plt.Rectangle((-2.2, -2.2), 4.4, 4.4, fill=False, linestyle=":"))
left.set_aspect("equal")
left.set_xlim(-3, 3)
left.set_ylim(-2.6, 3.4)
left.legend(loc="upper right", fontsize=7)
right.semilogy(sol.history["primal"], label="primal")
right.semilogy(sol.history["dual"], label="dual")
right.set_xlabel("iteration")
right.set_ylabel("residual")
right.legend()
figure.savefig(os.path.join(os.environ.get("SHEAF_PICTURES", "python/notebooks/pictures"), "own_graph.png"), dpi=110)
