"""Interleaf: memory tiers of unequal speed, predicted, simulated and extended.

The package binds the crates of the command ``interleaf``, which is installed beside it, and starts
no process. Results are records with the same bytes as the command's ``--json``.

>>> import interleaf
>>> interleaf.predict("xeon6-cz122", mix="R", weights="3:1").rows[0].bandwidth_gbps > 0
True
"""

from __future__ import annotations

from . import _core, plot, simulate
from ._balance import Balance, BalancePeriod
from ._design import Design, Range, cases, grid, latin_hypercube, read_design
from ._design import random as random_design
from ._errors import InputError, InputTypeError
from ._memory import ExtendedArray, ExtendedMemory, ExtendedMemoryError, extended_array
from ._model import Curve, Demand, Mix, Platform, Tier, Weights, names
from ._plan import plan
from ._policy import Observation, Policy
from ._predict import PredictionArray, every_ratio, predict
from ._records import (
    CardOutcome,
    DimmOutcome,
    MachineOutcome,
    Plan,
    Prediction,
    Record,
    Reproduction,
    parse,
    read,
)
from ._reproduce import reproduce
from ._sweep import SweepResult, sweep
from .plot import compare

__version__: str = _core.VERSION

__all__ = [
    "Balance",
    "BalancePeriod",
    "CardOutcome",
    "Curve",
    "Demand",
    "Design",
    "DimmOutcome",
    "ExtendedArray",
    "ExtendedMemory",
    "ExtendedMemoryError",
    "InputError",
    "InputTypeError",
    "MachineOutcome",
    "Mix",
    "Observation",
    "Plan",
    "Platform",
    "Policy",
    "Prediction",
    "PredictionArray",
    "Range",
    "Record",
    "Reproduction",
    "SweepResult",
    "Tier",
    "Weights",
    "__version__",
    "cases",
    "compare",
    "every_ratio",
    "extended_array",
    "grid",
    "latin_hypercube",
    "names",
    "parse",
    "plan",
    "plot",
    "predict",
    "random_design",
    "read",
    "read_design",
    "reproduce",
    "simulate",
    "sweep",
]
