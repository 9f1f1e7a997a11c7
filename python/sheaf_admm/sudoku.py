"""Sudoku puzzles: uint8 arrays [9, 9], 0 for a blank."""

from __future__ import annotations

from typing import Tuple

import numpy as np

from . import _native

__all__ = ["draw", "generate", "parse"]


def generate(count: int, kind: str = "mixed", *, seed: int = 0) -> Tuple[np.ndarray, np.ndarray]:
    """Puzzles and their solutions, uint8 `[count, 9, 9]`.

    Kinds: `"mixed"` (as the published data), `"full"`, `"minimal"`, `"graded"`, `"hard"`, `"singles"`, `"any"` (ambiguous
    ones too).

    >>> from sheaf_admm import sudoku
    >>> puzzles, solutions = sudoku.generate(3, "singles", seed=1)
    >>> puzzles.shape, bool((solutions.sum(axis=(1, 2)) == 405).all())
    ((3, 9, 9), True)
    """
    return _native.sudoku_generate(count, kind, seed)


def parse(text: str) -> np.ndarray:
    """A board from text: digits, and `.` or 0 for blanks; everything else is skipped.

    >>> from sheaf_admm import sudoku
    >>> int(sudoku.parse("5" + "." * 80)[0, 0])
    5
    """
    from ._errors import mistake

    cells = ["0" if c in "._*?" else c for c in text if c.isdigit() or c in "._*?"]
    if len(cells) != 81:
        hint = "nine lines of nine cells, or all 81 in one; `.` or 0 for a blank"
        raise mistake("Malformed", "board", "81 cells", len(cells), hint)
    return np.array(cells, dtype=np.uint8).reshape(9, 9)


def draw(board: np.ndarray) -> str:
    """A board as text."""
    return "\n".join(" ".join("." if digit == 0 else str(digit) for digit in row) for row in board)
