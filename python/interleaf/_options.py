"""Options of a call as texts, which the native module parses as the command does."""

from __future__ import annotations

from collections.abc import Sequence

from ._errors import InputTypeError

#: A value of an option: text with its unit, or a number where the option has no unit.
Option = object


def texts(**options: Option) -> dict[str, str]:
    """Return the options that are set, each as text.

    Raises:
        InputTypeError: A value is neither text, number, truth value, nor a list of them.
    """
    found: dict[str, str] = {}
    for name, value in options.items():
        if value is None or value is False:
            continue
        found[name] = text(name, value)
    return found


def text(name: str, value: Option) -> str:
    """Return one value of the option ``name`` as text."""
    if value is True:
        return "true"
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return repr(value)
    as_option = getattr(value, "__interleaf_option__", None)
    if callable(as_option):
        return str(as_option())
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return ",".join(text(f"{name}[{at}]", item) for at, item in enumerate(value))
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return text(name, value.item())
    kind = type(value).__name__
    raise InputTypeError(
        f"{name} is of type {kind}", "give text such as the command takes, or a number"
    )
