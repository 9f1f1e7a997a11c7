"""Mazes: uint8 arrays of 1 wall, 2 empty, 3 start, 4 goal, 5 path."""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np

from . import _native

WALL, EMPTY, START, GOAL, PATH = 1, 2, 3, 4, 5

__all__ = ["EMPTY", "GOAL", "PATH", "START", "WALL", "centres", "draw", "generate"]


def generate(
    count: int,
    size: int = 19,
    *,
    width: Optional[int] = None,
    min_path: Optional[int] = None,
    seed: int = 0,
    distinct: bool = True,
) -> Tuple[np.ndarray, np.ndarray]:
    """Mazes and the same with their paths, uint8 `[count, size, width]`.

    Sizes are odd. `min_path` is the least number of steps, by default one less than the longer side. With `distinct`, no maze
    is a rotation or reflection of another. The first 1,000 of size 19 and seed 0 are the published test set's stand-in, as
    `sheaf data maze` makes it.

    >>> from sheaf_admm import maze
    >>> mazes, paths = maze.generate(2, seed=3)
    >>> mazes.shape, mazes.dtype, bool((paths == maze.PATH).any())
    ((2, 19, 19), dtype('uint8'), True)
    """
    width = size if width is None else width
    least = max(size, width) - 1 if min_path is None else min_path
    return _native.maze_generate(count, size, width, least, seed, distinct)


def centres(height: int, width: int) -> np.ndarray:
    """Row and column of the pixel at the centre of every agent's view, int64 `[agents, 2]`."""
    return _native.maze_centres(height, width)


def draw(maze: np.ndarray) -> str:
    """A maze as text, as `sheaf solve maze` reads it; the path is dotted.

    >>> from sheaf_admm import maze
    >>> print(maze.draw(maze.generate(1, size=5, min_path=2, seed=0)[1][0]))
    #####
    #..S#
    #G###
    #   #
    #####
    """
    return "\n".join("".join("?# SG."[token] for token in row) for row in maze)
