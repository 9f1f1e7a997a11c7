# %% [markdown]
# # A toy layer in ten lines
#
# Twenty-four agents stand on a ring. Each has one noisy measurement of a smooth signal and talks to its two neighbours. The
# layer learns what neighbours should agree on, and how firmly, so that together they remove the noise.

# %%
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

import sheaf_admm as sa
import sheaf_admm.torch as st

torch.manual_seed(0)
agents, ring = 24, sa.Graph(24, [(i, (i + 1) % 24) for i in range(24)])


def signals(count):
    """Smooth signals on the ring, and what the agents measure of them."""
    at = torch.arange(agents) * (2 * np.pi / agents)
    waves = torch.randn(count, 3, 1)
    truth = waves[:, 0] * torch.sin(at) + waves[:, 1] * torch.cos(at) + 0.5 * waves[:, 2] * torch.sin(2 * at)
    return truth, truth + 0.5 * torch.randn(count, agents)


# %% [markdown]
# The layer: every agent has two numbers, of which the first should be its part of the signal: f(x) = ½ (x₀ − measured)² +
# ½ w x₁². The ten lines:

# %%
net = st.SheafADMM(ring, d_v=2, d_e=1, iterations=30, gamma=1.0, learn_gamma=True)
weight = torch.nn.Parameter(torch.zeros(()))
optimiser = torch.optim.Adam([*net.parameters(), weight], lr=0.03)
losses = []
for step in range(300):
    truth, measured = signals(64)
    q = torch.stack([-measured, torch.zeros_like(measured)], dim=-1)
    diag = torch.stack([torch.ones(()), torch.nn.functional.softplus(weight)])
    loss = (net(q, diag)[..., 0] - truth).square().mean()
    optimiser.zero_grad(), loss.backward(), optimiser.step()
    losses.append(loss.item())

# %%
truth, measured = signals(1000)
with torch.no_grad():
    cleaned = net(torch.stack([-measured, torch.zeros_like(measured)], dim=-1), diag)[..., 0]
before, after = ((guess - truth).square().mean().sqrt().item() for guess in (measured, cleaned))
print(f"noise {before:.3f}, after the agents have talked {after:.3f}; rho {net.rho.item():.2f}, gamma {net.gamma.item():.2f}")
assert after < 0.75 * before, (before, after)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), constrained_layout=True)
left.plot(truth[0], "k-", label="signal")
left.plot(measured[0], "x", color="tab:red", label="measured")
left.plot(cleaned[0], "o-", color="tab:blue", markersize=3, label="agreed")
left.set_xlabel("agent")
left.legend()
right.semilogy(losses, color="tab:blue")
right.axhline(before**2, color="tab:red", linestyle="--", label="noise")
right.set_xlabel("update")
right.set_ylabel("mean squared error")
right.legend()
figure.savefig(os.path.join(os.environ.get("SHEAF_PICTURES", "python/notebooks/pictures"), "toy_layer.png"), dpi=110)
