"""Errors of this package."""

from __future__ import annotations


class InputError(ValueError):
    """A value that cannot be used, or a file that cannot be read.

    Attributes:
        problem: The problem, with the name of the field and its value.
        hint: Advice, the same as that of the command.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem}; hint: {self.hint}" if self.hint else self.problem


class InputTypeError(InputError, TypeError):
    """A value of a type that the field does not have."""
