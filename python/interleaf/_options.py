"""Options of a call as texts, which the native module parses as the command does."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ._errors import InputError, InputTypeError

if TYPE_CHECKING:
    from typing import SupportsFloat, SupportsIndex, TypeGuard

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
        return plain(name, value)
    if isinstance(value, (int, float)):
        return _number(name, value)
    as_option = getattr(value, "__interleaf_option__", None)
    if callable(as_option):
        return str(as_option())
    if _is_list(value) and not any(_is_list(item) for item in value):
        return ",".join(text(f"{name}[{at}]", item) for at, item in enumerate(value))
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return text(name, value.item())
    kind = type(value).__name__
    raise InputTypeError(
        f"{name} is of type {kind}", "give text such as the command takes, or a number"
    )


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _number(name: str, value: float) -> str:
    try:
        return repr(value)
    except ValueError:
        raise InputError(f"{name} has too many digits", f"correct {name}") from None


def number(name: str, value: object) -> float:
    """Return a finite number.

    Raises:
        InputError: The value of ``name`` is not finite.
        InputTypeError: It is not a number.
    """
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        raise InputTypeError(f"{name} is of type {type(value).__name__}", "give a number")
    try:
        found = float(cast("SupportsFloat", value))
    except (TypeError, ValueError, OverflowError) as why:
        raise InputError(f"{name}: {why}", "give a finite number") from None
    if not math.isfinite(found):
        raise InputError(f"{name} = {found}", "give a finite number")
    return found


def whole(name: str, value: object) -> int:
    """Return a whole number.

    Raises:
        InputTypeError: The value of ``name`` is none.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputTypeError(f"{name} is of type {type(value).__name__}", "give a whole number")
    return operator.index(cast("SupportsIndex", value))


def word(name: str, value: object) -> str:
    """Return text.

    Raises:
        InputError: The text of ``name`` is no Unicode text.
        InputTypeError: Its value is not text.
    """
    if not isinstance(value, str):
        raise InputTypeError(f"{name} is of type {type(value).__name__}", "give text")
    return plain(name, value)


def items(name: str, value: object, hint: str) -> list[Any]:
    """Return the items of a list or another iterable.

    Raises:
        InputTypeError: The value of ``name`` has none.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InputTypeError(f"{name} is of type {type(value).__name__}", hint)
    return list(value)


def plain(name: str, value: str) -> str:
    """Return text that the native module can take: without halves of surrogate pairs.

    Raises:
        InputError: The text of ``name`` is no Unicode text.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} = {value!r}: it is no Unicode text", f"correct {name}") from None
    return value


def path_of(name: str, value: object) -> str:
    """Return a path as text.

    Raises:
        InputError: The path is no Unicode text.
        InputTypeError: The value of ``name`` is not a path.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return plain(name, value)
    raise InputTypeError(f"{name} is of type {type(value).__name__}", "give a path as text")


def called(name: str, function: object) -> None:
    """Check that ``function`` is a function or ``None``.

    Raises:
        InputTypeError: The value of ``name`` is neither.
    """
    if function is not None and not callable(function):
        raise InputTypeError(f"{name} is of type {type(function).__name__}", "give a function")
