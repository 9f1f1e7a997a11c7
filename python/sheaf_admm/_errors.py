"""Exceptions."""

from __future__ import annotations

from typing import Optional


class Error(ValueError):
    """A mistake in what was given: where, what was expected, what was found, and a hint.

    >>> import numpy as np, sheaf_admm as sa
    >>> try:
    ...     sa.Quadratic(np.eye(2), np.array([1.0, np.nan]))
    ... except sa.Error as error:
    ...     print(error.kind, "at", error.place)
    NotFinite at q[1]
    """

    kind: str
    place: str
    expected: str
    got: str
    hint: Optional[str]

    def __init__(self, message: str, kind: str = "Unsupported", parts: tuple = ("", "", "", None)):
        super().__init__(message)
        self.kind = kind
        self.place, self.expected, self.got, self.hint = parts

    def __reduce__(self):
        parts = (self.place, self.expected, self.got, self.hint)
        return (type(self), (self.args[0], self.kind, parts))


class InternalError(RuntimeError):
    """A mistake in this library, not in what it was given. Please report it."""


def mistake(kind: str, place: str, expected: str, got: object, hint: Optional[str] = None) -> Error:
    """An error with the text that the native part would give it."""
    message = f"{place}: expected {expected}, got {got}"
    if hint is not None:
        message += f"\nhint: {hint}"
    return Error(message, kind, (place, expected, str(got), hint))
