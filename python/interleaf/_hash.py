"""The content hash of a case of a sweep.

The hash covers the function, the version and the arguments: the content of the platforms and files
that they name, and the code and the state of functions and objects.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from types import CodeType, FunctionType, ModuleType

from . import _core
from ._case import TARGETS, Target, is_own, label_of
from ._errors import InputError, InputTypeError
from ._model import Demand, Platform
from ._options import plain, text

#: The argument that names a platform: its content is part of the hash.
_PLATFORM = "platform"

#: The layout of rows. It is part of the hash, and is raised when rows get other columns.
LAYOUT = "2"

#: Values that were visited, by their id, each with the number of its visit.
_Seen = dict[int, tuple[int, object]]


class Hasher:
    """Hashes the cases of one sweep.

    A file or platform that many cases name is read once for each sweep, so that a later sweep of
    the same process sees its new content.
    """

    def __init__(self, target: Target) -> None:
        self._read = lru_cache(maxsize=4096)(_content_of_text)
        self._made = lru_cache(maxsize=256)(_content_of_model)
        own = "" if target in TARGETS.values() else self._state(target, {})
        self._head = [label_of(target), _core.VERSION, LAYOUT, own]

    def case(self, arguments: Mapping[str, object]) -> str:
        """Return the hash of a case: of function, version, and all that the arguments name."""
        parts: list[object] = [self._head]
        for name in sorted(arguments):
            value = arguments[name]
            if value is not None:
                parts.append([name, self._content(name, value, {})])
        return _sha256(parts)[:32]

    def _content(self, name: str, value: object, seen: _Seen) -> str:
        """Return the content of a value as text: the value, or a hash of what it names."""
        if isinstance(value, (int, float)):
            return text(name, value)
        if not isinstance(value, str) and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, (str, bytes)):
            if name and isinstance(value, str):
                plain(name, value)
            return f"{value!r} {self._read(name == _PLATFORM, value)}"
        if isinstance(value, (Platform, Demand)):
            return self._made(value)
        # A value can contain itself: a recursive function is in its own closure.
        if id(value) in seen:
            return f"visit {seen[id(value)][0]}"
        seen[id(value)] = (len(seen), value)
        return self._items(value, seen)

    def _items(self, value: object, seen: _Seen) -> str:
        """Return the content of a container, a function, a class or another object."""
        found: list[str]
        if isinstance(value, Mapping):
            pairs = (item for key in value for item in (key, value[key]))
            found = [self._content("", item, seen) for item in pairs]
        elif isinstance(value, Sequence) and not isinstance(value, (bytearray, memoryview)):
            found = [self._content("", item, seen) for item in value]
        elif isinstance(value, (set, frozenset)):
            found = sorted(self._content("", item, seen) for item in value)
        elif value is None or isinstance(value, ModuleType):
            return getattr(value, "__name__", "None")
        else:
            return _option(value) or self._state(value, seen)
        return _sha256([type(value).__name__, *found])

    def _state(self, value: object, seen: _Seen) -> str:
        """Return a hash of a function, a class, or another object: of its code and its state."""
        state: list[object]
        if isinstance(value, partial):
            state = [value.func, value.args, value.keywords]
        elif inspect.ismethod(value):
            state = [value.__func__, value.__self__]
        elif isinstance(value, type):
            state = [item for kind in _own_classes(value) for item in _class_parts(kind)]
        elif inspect.isroutine(value):
            state = [_code(value), getattr(value, "__wrapped__", None)]
            state += _bound_values(value) if isinstance(value, FunctionType) else []
        else:
            state = [type(value), *_object_parts(value)]
        return _sha256([self._content("", item, seen) for item in state])


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _option(value: object) -> str:
    """Return the text of a value that an option can have, such as a mix; empty for others."""
    try:
        return "" if is_own(value) else text("", value)
    except InputTypeError:
        return ""


def _content_of_text(is_platform: bool, value: str | bytes) -> str:
    """Return a hash of the platform or the file that a text names; empty if it names none."""
    if is_platform and isinstance(value, str):
        try:
            return _content_of_model(Platform(value))
        except InputError:
            pass  # The call has the same error, which becomes the row of the case.
    if isinstance(value, str) and not os.path.isfile(value):
        value = value.rpartition(":")[0]  # FILE:NAME is a device of a file
    try:
        if os.path.isfile(value):
            with open(value, "rb") as file:
                return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        pass
    return ""


def _content_of_model(value: Platform | Demand) -> str:
    return hashlib.sha256(repr(value._made_from).encode()).hexdigest()


def _bound_values(function: FunctionType) -> list[object]:
    """Return the values of a function's closure and of its defaults, which its code lacks."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:
            cells.append(None)  # The name is bound later, or never.
    return [*cells, function.__defaults__, function.__kwdefaults__]


def _own_classes(kind: type) -> list[type]:
    """Return a class and its bases, without those of Python itself."""
    python = sys.stdlib_module_names
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in python]


def _class_parts(kind: type) -> list[object]:
    """Return the code of a class, and the values that its methods have from their surroundings."""
    functions = (getattr(item, "__func__", item) for item in vars(kind).values())
    bound = [_bound_values(item) for item in functions if isinstance(item, FunctionType)]
    return [_code(kind), *bound]


def _object_parts(value: object) -> list[object]:
    """Return the state of an object: its pickle, or its attributes where it has no pickle."""
    try:
        return [hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()]
    except Exception:
        return [getattr(value, "__dict__", None)]


@lru_cache(maxsize=256)
def _code(kind: object) -> str:
    """Return the code of a function or a class, as it was when the function was first hashed."""
    own = [kind, *(vars(kind).values() if isinstance(kind, type) else ())]
    codes = (getattr(item, "__code__", None) for item in own)
    found = "".join(_instructions(code) for code in codes if isinstance(code, CodeType))
    # Several lambdas on one line have one source, and a decorated function has that of the
    # function in it.
    if getattr(kind, "__name__", "") == "<lambda>" or hasattr(kind, "__wrapped__"):
        return found
    try:
        return inspect.getsource(kind)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return found


def _instructions(code: CodeType) -> str:
    return f"{code.co_code.hex()}{code.co_names}({','.join(map(_constant, code.co_consts))})"


def _constant(value: object) -> str:
    """Return a constant as text that is the same in each process."""
    if isinstance(value, CodeType):
        return _instructions(value)
    if isinstance(value, frozenset):
        return str(sorted(map(repr, value)))  # The order of its texts differs by process.
    return repr(value)
