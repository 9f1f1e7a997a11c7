"""The layer for torch: sheaf ADMM as a differentiable function and as a module.

One sample is a graph of N agents with states in R^d_v. A call runs K iterations of

    x = argmin f(x) + rho/2 |x - (z - u)|^2      every agent alone
    z = consensus(x + u)                         the only communication
    u = u + x - z

and returns the last x, `[batch, agents, d_v]`. Objectives f are diagonal quadratics with l1, l2 and bounds (`diag`, `q`, `l1`,
`l2`, `lo`, `hi`) or dense quadratics (`quad`, `q`); without l1 and l2 also with equalities A x = b (`eq_a`, `eq_b`) and
inequalities G x <= h (`in_g`, `in_h`). Gradients reach every tensor that is given.

The computation runs on the CPU, in float32 or float64. From torch 2.4 on it is a custom operator, so that `torch.compile`
does not break the graph at it; below it is an autograd function.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Optional, Union

import torch
from torch import Tensor, nn

from ._errors import mistake
from ._arrays import NAMES, config_of, target_shape
from ._native import Graph, Layer, Model
from ._torch_op import Numbered, apply

__all__ = ["SheafADMM", "layer", "load_state_dict", "orthonormal_maps", "solve", "state_dict"]


def layer(graph: Graph, d_v: int, d_e: int, iterations: int, **options: Any) -> Layer:
    """The choices of a solve, to be made once: a `sheaf_admm.Layer` that torch can call.

    Options: `hard` (False: disagreement costs gamma/2 |F z|^2), `consensus` ("cg", "cg-warm", "cg-zero", "cg-carried",
    "descent", "exact", "orthonormal"), `steps` (5) and `tolerance` (0) of consensus, `relax` (1.0), `window` (1: return the
    last x; W: the last W), `adjoint` ("unrolled", "implicit", or through how many of the last iterations gradients flow),
    `threads`.
    """
    return Numbered(graph, d_v, d_e, iterations, **options)


def solve(made: Layer, *, index: Optional[Tensor] = None, scale: Optional[float] = None, **inputs: Any) -> Tensor:
    """Runs the iterations of a layer and returns the last x, `[batch, agents, d_v]`, or `[window, batch, agents, d_v]`.

    | input | shape |
    | --- | --- |
    | `q` | `[batch, agents, d_v]` |
    | `diag`, `l1`, `l2`, `lo`, `hi`, `start` | broadcast to that shape |
    | `quad` | broadcast to `[batch, agents, d_v, d_v]`, instead of `diag`; its symmetric part counts |
    | `eq_a`, `eq_b` | equalities of every agent, A x = b: broadcast to `[batch, agents, rows, d_v]`, `[batch, agents, rows]` |
    | `in_g`, `in_h` | inequalities G x ≤ h, in the same shapes |
    | `maps` | `[slots, d_e, d_v]`, with `[agents]` or `[batch, agents]` in front; or `[views]` with `index` `[batch, agents]` |
    | `base`, `a`, `b` | instead of `maps`: base `[slots, d_e, d_v]` plus `scale`·a·bᵀ, `[…, slots, d_e or d_v, rank]` |
    | `rho` | one number or `[agents]` |
    | `gamma`, `eta` | one number |

    >>> import torch, sheaf_admm as sa, sheaf_admm.torch as st
    >>> made = st.layer(sa.Graph(2, [(0, 1)]), d_v=1, d_e=1, iterations=100, hard=True, consensus="exact")
    >>> q = torch.tensor([[[-1.0], [-5.0]]], dtype=torch.float64, requires_grad=True)
    >>> x = st.solve(made, q=q, diag=1.0, maps=torch.ones(1, 1, 1), rho=1.0)
    >>> x.detach().round(decimals=4).flatten().tolist()
    [3.0, 3.0]
    >>> x.sum().backward()
    >>> q.grad.round(decimals=4).flatten().tolist()
    [-1.0, -1.0]
    """
    q = inputs.get("q")
    if not isinstance(q, Tensor):
        raise mistake("Unsupported", "q", "a tensor [batch, agents, d_v]", type(q).__name__)
    unknown = sorted(set(inputs) - set(NAMES))
    if unknown:
        raise mistake("Unsupported", "inputs", ", ".join(NAMES), ", ".join(unknown))
    if not isinstance(made, Numbered):
        raise mistake("Unsupported", "layer", "one made by sheaf_admm.torch.layer", type(made).__name__)
    names, tensors = [], []
    for name in NAMES:
        value = inputs.get(name)
        if value is None:
            continue
        value = torch.as_tensor(value, dtype=q.dtype) if not isinstance(value, Tensor) else value
        _check(name, value)
        value = value.to(q.dtype) if value.dtype != q.dtype else value
        shape = target_shape(name, value.shape, q.shape)
        if tuple(value.shape) != shape:
            try:
                value = value.expand(shape)
            except RuntimeError:
                raise mistake("Shape", name, f"a shape that broadcasts to {list(shape)}", list(value.shape)) from None
        if name == "quad":  # the objective sees nothing but the symmetric part
            value = (value + value.transpose(-1, -2)) / 2
        names.append(name)
        tensors.append(value)
    if index is not None:
        _check("index", index)
    x = apply(made.number, names, tensors, index, scale)
    return x[0] if made.last_only else x


def _check(name: str, value: Tensor) -> None:
    """Refuses tensors that are not numbers in the memory of this machine."""
    if value.device.type != "cpu":
        hint = f"move it with {name}.cpu() and the result back with .to({str(value.device)!r}); the layer runs on the CPU"
        raise mistake("Unsupported", name, "a tensor on the CPU", f"one on {value.device}", hint)
    if name != "index" and value.dtype not in (torch.float32, torch.float64):
        hint = "convert it with .float() or .double()"
        raise mistake("Unsupported", name, "float32 or float64", str(value.dtype), hint)
    if value.layout != torch.strided:
        raise mistake("Unsupported", name, "a dense tensor", str(value.layout), "convert it with .to_dense()")


def orthonormal_maps(slots: int, d_e: int, d_v: int) -> Tensor:
    """Random maps `[slots, d_e, d_v]` whose rows are orthonormal, each map on its own."""
    maps = torch.empty(slots, d_e, d_v)
    for one in maps:
        nn.init.orthogonal_(one)
    return maps


class SheafADMM(nn.Module):
    """Sheaf ADMM as a module: it owns the base maps, the penalty and, if soft, the price of disagreement.

    `maps` is `"slot"` (one map for every slot) or `"global"` (one for all). `rank` > 0 adds a low-rank update per agent,
    whose factors are given to `forward`. `rho` and `gamma` are the initial values; `learn_rho` and `learn_gamma` say whether
    they are parameters (they stay positive by softplus).

    >>> import torch, sheaf_admm as sa, sheaf_admm.torch as st
    >>> torch.manual_seed(0); net = st.SheafADMM(sa.Graph.grid(4, 4), d_v=6, d_e=3, iterations=20)
    <torch...>
    >>> q = torch.randn(8, 16, 6, requires_grad=True)
    >>> x = net(q)
    >>> x.shape
    torch.Size([8, 16, 6])
    >>> x.square().mean().backward()
    >>> sorted(name for name, p in net.named_parameters() if p.grad is not None)
    ['maps', 'raw_rho']
    """

    def __init__(
        self,
        graph: Graph,
        d_v: int,
        d_e: int,
        iterations: int,
        *,
        maps: str = "slot",
        rank: int = 0,
        rho: float = 0.25,
        gamma: Optional[float] = 1.0,
        learn_rho: bool = True,
        learn_gamma: bool = False,
        **options: Any,
    ):
        super().__init__()
        if maps not in ("slot", "global"):
            raise mistake("Unsupported", "maps", '"slot" or "global"', repr(maps))
        self.graph, self.d_v, self.d_e, self.iterations, self.rank = graph, d_v, d_e, iterations, rank
        self.options = dict(options, hard=gamma is None)
        self._layer = Numbered(graph, d_v, d_e, iterations, **self.options)
        self.sharing = maps
        self.maps = nn.Parameter(orthonormal_maps(1 if maps == "global" else self._layer.slots, d_e, d_v))
        self.raw_rho = nn.Parameter(torch.tensor(_inverse_softplus("rho", rho)), requires_grad=learn_rho)
        if gamma is not None:
            raw = torch.tensor(_inverse_softplus("gamma", gamma))
            self.raw_gamma = nn.Parameter(raw, requires_grad=learn_gamma)

    @property
    def rho(self) -> Tensor:
        """The penalty."""
        return nn.functional.softplus(self.raw_rho)

    @property
    def gamma(self) -> Optional[Tensor]:
        """The price of disagreement; `None` where it is forbidden."""
        return None if self.options["hard"] else nn.functional.softplus(self.raw_gamma)

    def forward(
        self,
        q: Tensor,
        diag: Union[Tensor, float, None] = None,
        *,
        a: Optional[Tensor] = None,
        b: Optional[Tensor] = None,
        **inputs: Any,
    ) -> Tensor:
        """The last x; see `solve` for the inputs. `diag` is 1 where neither it nor `quad` is given."""
        if (a is None) != (self.rank == 0) or (b is None) != (self.rank == 0):
            got = ", ".join(name for name, given in (("a", a), ("b", b)) if given is not None) or "none"
            raise mistake("Unsupported", "factors", f"a and b of rank {self.rank}" if self.rank else "none", got)
        if diag is None and inputs.get("quad") is None:
            diag = 1.0
        if self.rank:
            inputs.update(base=self.maps, a=a, b=b)
        else:
            slots = self._layer.slots
            inputs.update(maps=self.maps.expand(slots, self.d_e, self.d_v))
        return solve(self._layer, q=q, diag=diag, rho=self.rho, gamma=self.gamma, **inputs)

    def extra_repr(self) -> str:
        sizes = f"{self.graph}, d_v={self.d_v}, d_e={self.d_e}, iterations={self.iterations}, rank={self.rank}"
        return f"{sizes}, {config_of(self.options)}"

    def __getstate__(self) -> dict:
        state = dict(self.__dict__)
        del state["_layer"]
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._layer = Numbered(self.graph, self.d_v, self.d_e, self.iterations, **self.options)


def _inverse_softplus(name: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise mistake("NotPositive", name, "a finite number above 0", value)
    return value + math.log(-math.expm1(-value))


def state_dict(model: Model) -> Dict[str, Tensor]:
    """The parameters of a trained model by name, with dots for slashes, as a `state_dict` of torch has them; copies."""
    return {name.replace("/", "."): torch.from_numpy(value) for name, value in model.state_dict().items()}


def load_state_dict(model: Model, state: Mapping[str, Tensor]) -> None:
    """Replaces the parameters of a trained model by those of a `state_dict`; every name must be there."""
    names = {name.replace("/", "."): name for name in model.state_dict()}
    values = {name: value.detach().cpu().numpy() for name, value in state.items()}
    model.load_state_dict({names.get(name, name): value for name, value in values.items()})
