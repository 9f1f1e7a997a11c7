"""Pictures of digits: uint8, or float32 in [0, 1]."""

from __future__ import annotations

import os
from typing import Optional, Tuple, Union

import numpy as np

from . import _native
from ._errors import mistake

__all__ = ["digits", "read", "shift"]


def read(folder: Union[str, "os.PathLike[str]"], split: str = "test") -> Tuple[np.ndarray, np.ndarray]:
    """Pictures uint8 `[n, height, width]` and labels int64 `[n]` of a folder of IDX files, gzipped or not."""
    if split not in ("train", "test"):
        raise mistake("Unsupported", "split", '"train" or "test"', repr(split))
    return _native.mnist_read(os.fspath(folder), split == "test")


def digits(count: int, size: int = 28, *, seed: int = 0) -> Tuple[np.ndarray, np.ndarray]:
    """Drawn digits that need no download: pictures uint8 `[count, size, size]` and labels int64 `[count]`.

    >>> from sheaf_admm import mnist
    >>> pictures, labels = mnist.digits(20)
    >>> pictures.shape, labels[:3].tolist()
    ((20, 28, 28), [0, 1, 2])
    """
    return _native.mnist_digits(count, size, seed)


def shift(
    images: np.ndarray, shift: str, *, seed: int = 0, draw: int = 0
) -> Tuple[np.ndarray, Optional[np.ndarray]]:
    """Shifted pictures, float32, and for dropout the agents that see black, bool `[n, agents]`, else `None`.

    Shifts: `"none"`, `"pad:4"` (black pixels on every side), `"drop:0.3"` (each agent sees black with that probability; give
    the mask to `Model.predict`), `"noise:0.1"` (normal, clipped to [0, 1]). A shift depends on seed, draw and the number of
    the picture alone.

    >>> from sheaf_admm import mnist
    >>> pictures, _ = mnist.digits(2)
    >>> mnist.shift(pictures, "pad:4")[0].shape
    (2, 36, 36)
    >>> mnist.shift(pictures, "drop:0.3")[1].shape
    (2, 81)
    """
    return _native.mnist_shift(images, shift, seed, draw)
