"""Policies written in Python, for the simulated machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ._errors import InputError, InputTypeError

# : The largest accepted distance of a sum of shares from 1. Accepted shares are normalised.
SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class TierLayout:
    """A tier near the domain of a policy, with the firmware's ratings."""

    name: str
    kind: str
    capacity_bytes: int
    rated_gbps: float
    rated_latency_ns: float


@dataclass(frozen=True)
class TierObservation:
    """A tier in a period: means over the samples without migration; ``None`` if not counted."""

    bandwidth_gbps: float
    read_share: float | None
    latency_ns: float | None
    free_bytes: int | None


@dataclass(frozen=True)
class Observation:
    """The counters of a period, as a policy sees them.

    Attributes:
        time_s: Time since the start, s.
        samples: The number of samples behind the observation.
        bandwidth_gbps: 90th percentile of the samples' total bandwidth, GB/s.
        mean_gbps: Mean of the samples' total bandwidth, GB/s.
        error_gbps: Standard error of that mean, GB/s.
        target: The shares of the period, by tier.
        tiers: The tiers near the domain, the fastest first.
        steered_bytes: Bytes of the steered pages, if known.
    """

    time_s: float
    samples: int
    bandwidth_gbps: float
    mean_gbps: float
    error_gbps: float
    target: tuple[float, ...]
    tiers: tuple[TierObservation, ...]
    steered_bytes: int | None


@runtime_checkable
class Policy(Protocol):
    """Decides at the end of each period the share of pages on each tier.

    A policy may also have a method ``start() -> Sequence[float]``: the shares before the first
    observation (default: all pages on the first tier).
    """

    def decide(self, observation: Observation) -> Sequence[float]:
        """Return the share of pages on each tier: 0 to 1, summing to 1."""
        ...


#: Makes the policy of a domain from its number and its local tiers.
PolicyFactory = Callable[[int, Sequence[TierLayout]], Policy]


class Adapter:
    """Checks the shares of a policy, and calls it with an :class:`Observation`."""

    def __init__(self, policy: Policy, tiers: int) -> None:
        if not isinstance(policy, Policy):
            kind = type(policy).__name__
            raise InputTypeError(f"{kind} is not a policy", "give it a method decide(observation)")
        self._policy = policy
        self._tiers = tiers

    def start(self) -> list[float]:
        """Return the shares before the first observation."""
        own = getattr(self._policy, "start", None)
        if own is None:
            return [1.0] + [0.0] * (self._tiers - 1)
        return self._checked("start", own())

    def decide(self, seen: dict[str, Any]) -> tuple[list[float], bool, str]:
        """Return shares, whether they differ from the target, and the reason."""
        tiers = tuple(TierObservation(*tier) for tier in seen["tiers"])
        target = tuple(seen["target"])
        decided = self._policy.decide(Observation(**{**seen, "tiers": tiers, "target": target}))
        shares = self._checked("decide", decided)
        is_step = any(abs(a - b) > SUM_TOLERANCE for a, b in zip(shares, target, strict=True))
        reason = getattr(self._policy, "reason", "")
        return shares, is_step, reason if isinstance(reason, str) else ""

    def _checked(self, method: str, given: Any) -> list[float]:
        name = f"{type(self._policy).__name__}.{method}"
        hint = f"return {self._tiers} shares from 0 to 1 that sum to 1"
        try:
            shares = [float(share) for share in given]
        except (TypeError, ValueError):
            raise InputTypeError(f"{name} returned {given!r}", hint) from None
        total = math.fsum(shares)
        in_range = all(0.0 <= share <= 1.0 for share in shares)
        if len(shares) != self._tiers or not in_range or abs(total - 1.0) > SUM_TOLERANCE:
            raise InputError(f"{name} returned {given!r}", hint)
        return [share / total for share in shares]


def adapter_factory(
    policy: Policy | type | PolicyFactory,
) -> Callable[[int, list[dict[str, Any]]], Adapter]:
    """Return a function that makes the adapter of a domain.

    A class is instantiated for each domain; so is a function of the domain's number and tiers. One
    object serves a machine with one domain.
    """
    used: list[int] = []

    def make(domain: int, tiers: list[dict[str, Any]]) -> Adapter:
        layouts = tuple(TierLayout(**tier) for tier in tiers)
        if isinstance(policy, type):
            made = policy()
        elif isinstance(policy, Policy):
            used.append(domain)
            if len(used) > 1:
                raise InputError(
                    "one policy object cannot serve several domains",
                    "give the class, or a function of the domain and its tiers",
                )
            made = policy
        else:
            made = policy(domain, layouts)
        return Adapter(made, len(layouts))

    return make
