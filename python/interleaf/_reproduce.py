"""Published studies, computed again."""

from __future__ import annotations

from . import _core
from ._errors import InputTypeError
from ._predict import Progress
from ._records import Reproduction


def reproduce(study: str, *, progress: Progress | None = None) -> Reproduction:
    """Compute every number of a published study, beside the published one.

    Args:
        study: The study (``interleaf.names("studies")``), or ``all``.
        progress: Called about twenty times a second with done steps, all steps and the task.

    Raises:
        InputError: There is no such study.
    """
    if not isinstance(study, str):
        raise InputTypeError(f"study is of type {type(study).__name__}", "name a study, or all")
    return Reproduction(_core.reproduce(study, progress))
