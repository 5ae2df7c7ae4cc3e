"""Policies written in Python on the simulated machine."""

import interleaf
import pytest

HERE = {"platform": "gnr120-cz122", "workload": "cloverleaf", "threads": 119, "duration": "20s"}


class Fixed:
    """All pages in these shares."""

    shares = (0.65, 0.35)

    def start(self):
        return self.shares

    def decide(self, observation):
        assert observation.bandwidth_gbps > 0
        assert len(observation.tiers) == 2
        assert observation.target == pytest.approx(self.shares)
        return self.shares


def test_fixed_shares_are_the_static_policy():
    own = interleaf.simulate.machine(policy=Fixed, **HERE)
    built_in = interleaf.simulate.machine(policy="static", weights="65:35", **HERE)
    assert own.policy == "Fixed"
    assert own.final_weights == built_in.final_weights == (65, 35)
    assert own.workloads == built_in.workloads
    assert own.migrated_bytes_total == 0


class Steps:
    """Moves a tenth of the pages to the second tier in each period, up to 40 %."""

    def __init__(self):
        self.reason = ""

    def decide(self, observation):
        second = min(observation.target[1] + 0.1, 0.4)
        self.reason = f"at {observation.time_s:.0f} s"
        return [1 - second, second]


def test_decisions_move_pages_and_have_their_reasons():
    longer = {**HERE, "duration": "40s"}
    outcome = interleaf.simulate.machine(policy=Steps(), **longer)
    assert outcome.final_weights == (60, 40)
    assert outcome.migrated_bytes_total > 0
    assert outcome.periods[0].decision == "step"
    assert outcome.periods[0].reason.startswith("at ")
    assert outcome == interleaf.simulate.machine(policy=Steps(), **longer)


def test_a_function_makes_the_policy_of_each_domain():
    seen = []

    def make(domain, tiers):
        seen.append((domain, [tier.name for tier in tiers]))
        return Steps()

    interleaf.simulate.machine(policy=make, **HERE)
    assert seen == [(0, ["dram", "cxl"])]


def test_own_policies_beside_the_built_in_ones():
    outcome = interleaf.simulate.machine(policy=Steps, compare=True, **HERE)
    policies = [other["policy"] for other in outcome.to_dict()["comparison"]]
    assert {"dmi", "guided", "static"} <= set(policies)


class Fails:
    def decide(self, observation):
        raise ZeroDivisionError("no traffic")


class Wrong:
    def decide(self, observation):
        return [2.0, -1.0]


class Short:
    def decide(self, observation):
        return [1.0]


def test_exceptions_of_a_policy_are_raised():
    with pytest.raises(ZeroDivisionError, match="no traffic"):
        interleaf.simulate.machine(policy=Fails, **HERE)
    for wrong in (Wrong, Short):
        with pytest.raises(interleaf.InputError, match=f"{wrong.__name__}.decide returned"):
            interleaf.simulate.machine(policy=wrong, **HERE)
    with pytest.raises(TypeError, match="not a policy"):
        interleaf.simulate.machine(policy=lambda domain, tiers: 3, **HERE)
