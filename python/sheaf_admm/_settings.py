"""The keywords of a solve, for type checkers."""

from typing import Optional, TypedDict


class Keywords(TypedDict, total=False):
    """What `Settings` takes beside the tolerance."""

    iterations: int
    time_limit: Optional[float]
    rho: Optional[float]
    adapt: bool
    relax: float
    scale: bool
    threads: int
