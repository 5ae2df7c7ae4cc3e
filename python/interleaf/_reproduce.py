"""Published studies, computed again."""

from __future__ import annotations

from . import _core
from ._options import called, word
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
    called("progress", progress)
    return Reproduction(_core.reproduce(word("study", study), progress))
