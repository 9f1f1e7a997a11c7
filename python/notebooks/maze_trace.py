# %% [markdown]
# # The maze model: its trace and an intervention
#
# Eighty-one agents look at 3 × 3 pixels each of a 19 × 19 maze. They talk until they agree on the path. The trace holds every
# iteration; an intervention changes the agents' own problems before they talk.

# %%
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import sheaf_admm as sa

model = sa.load("builtin:maze")
mazes, paths = sa.maze.generate(50, seed=7)
score = model.score(mazes, paths)
print(model, {name: round(value, 3) for name, value in score.items()})
assert score["solved"] >= 0.9

# %%
maze, path = mazes[3], paths[3]
trace = model.trace(maze, 60)
wrong = [(answer == sa.maze.PATH) != (path == sa.maze.PATH) for answer in trace["predicted"]]
first = next(k for k, pixels in enumerate(wrong) if not pixels.any())
print(f"solved after {first + 1} iterations; edge residual {trace['edge_rms'][0]:.3f} -> {trace['edge_rms'][-1]:.3f}")

# %% [markdown]
# The intervention: the agents on one column tell their neighbours nothing (their maps are 0). No path crosses the column any
# more; only its ends near start and goal are still found.

# %%
centres = sa.maze.centres(*maze.shape)
column = centres[:, 1] == 9


def mute(problem):
    """Maps in full, those of the column 0."""
    factors = np.einsum("bnser,bnsvr->bnsev", problem.pop("a"), problem.pop("b"))
    maps = problem.pop("base") + problem.pop("scale") * factors
    maps[:, column] = 0
    return dict(problem, maps=maps.astype(np.float32))


muted = model.intervene(maze, mute, 60)["predicted"]
unchanged = model.intervene(maze, lambda problem: None, 60)["predicted"]
assert (unchanged == trace["predicted"][-1]).all(), "an intervention that does nothing changes nothing"
assert (muted != unchanged).any()

# %%
COLOURS = matplotlib.colors.ListedColormap(["white", "0.2", "white", "tab:green", "tab:red", "tab:blue"])
figure, axes = plt.subplots(2, 3, figsize=(10, 6.4), constrained_layout=True)
shown = [
    (f"after {k + 1} iterations", trace["predicted"][k]) for k in (0, max(1, first // 2), first)
] + [("column muted", muted)]
for axis, (title, answer) in zip(axes.flat, shown):
    axis.imshow(np.where(np.isin(maze, (sa.maze.START, sa.maze.GOAL)), maze, answer), cmap=COLOURS, vmin=0, vmax=5)
    axis.set_title(title)
    axis.axis("off")
axes[1, 0].plot(*centres[column].T[::-1], "o", color="tab:orange", markersize=4)
axes[1, 1].semilogy(np.linalg.norm(trace["primal"], axis=1), label="primal")
axes[1, 1].semilogy(np.linalg.norm(trace["dual"], axis=1), label="dual")
axes[1, 1].semilogy(trace["edge_rms"], label="edges")
axes[1, 1].axvline(first, color="0.7", linestyle="--")
axes[1, 1].set_xlabel("iteration")
axes[1, 1].legend()
image = axes[1, 2].imshow(trace["primal"].T, aspect="auto", norm=matplotlib.colors.LogNorm(), cmap="magma")
axes[1, 2].set_xlabel("iteration")
axes[1, 2].set_ylabel("agent")
axes[1, 2].set_title("disagreement of each agent")
figure.colorbar(image, ax=axes[1, 2])
figure.savefig(os.path.join(os.environ.get("SHEAF_PICTURES", "python/notebooks/pictures"), "maze_trace.png"), dpi=110)
