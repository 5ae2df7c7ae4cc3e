"""Platforms, demands, curves, mixes, weights."""

import pickle

import interleaf
import numpy as np
import pytest


def test_weights():
    weights = interleaf.Weights("3:1")
    assert weights == interleaf.Weights([3, 1]) == interleaf.Weights(weights)
    assert weights.shares == (0.75, 0.25)
    assert len({weights, interleaf.Weights((3, 1))}) == 1
    assert pickle.loads(pickle.dumps(weights)) == weights
    with pytest.raises(AttributeError):
        weights.values = (1, 1)


def test_mixes():
    mix = interleaf.Mix("w10")
    assert (str(mix), mix.nontemporal, mix.random) == ("W10", True, False)
    assert interleaf.Mix(0.62).read_share == 0.62
    assert pickle.loads(pickle.dumps(mix)) == mix


def test_a_curve_is_read_at_bytes_in_flight():
    curve = interleaf.Curve([(0, 100), (50, 120), (100, 200)])
    assert (curve.idle_latency_ns, curve.max_bandwidth_gbps) == (100.0, 100.0)
    flows = curve.at_in_flight(np.array([6000.0, 20000.0, 40000.0]))
    np.testing.assert_allclose(flows, [[50, 120], [100, 200], [100, 400]])
    np.testing.assert_allclose(flows[:, 0] * flows[:, 1], [6000, 20000, 40000])
    assert curve.scaled(2.0).max_bandwidth_gbps == 200.0
    assert hash(curve) == hash(pickle.loads(pickle.dumps(curve)))


def test_platforms_are_pickled_with_their_curves():
    platform = interleaf.Platform("xeon6-cz122")
    copy = pickle.loads(pickle.dumps(platform))
    assert copy == platform
    assert hash(copy) == hash(platform)
    assert copy.tiers == platform.tiers
    assert platform != interleaf.Platform("gnr120-cz122")
    assert [tier.name for tier in platform.tiers] == ["dram", "cxl"]
    assert platform.tiers[0].curve("R").max_bandwidth_gbps == 556.0


def test_a_platform_is_built_from_tiers():
    dram = interleaf.Curve([(0, 100), (200, 150), (250, 400)])
    cxl = interleaf.Curve([(0, 250), (60, 500)])
    tiers = [
        interleaf.Tier("fast", "dram", 64 << 30, (dram,)),
        interleaf.Tier('slow "far"', "cxl", 128 << 30, (cxl,)),
    ]
    platform = interleaf.Platform.build("mine", cores=32, tiers=tiers)
    assert [tier.capacity_bytes for tier in platform.tiers] == [64 << 30, 128 << 30]
    assert platform.tiers[1].name == 'slow "far"'
    assert platform.tiers[0].curves[0].points == dram.points
    best = interleaf.predict(platform, mix="R").best
    assert best is not None
    assert 250 < best.bandwidth_gbps < 310
    faster = interleaf.Tier("fast", "dram", 64 << 30, (dram.scaled(1.5),))
    other = interleaf.Platform.build("mine", cores=32, tiers=[faster, tiers[1]])
    assert interleaf.predict(other, mix="R").best.bandwidth_gbps > best.bandwidth_gbps


def test_demands():
    demand = interleaf.Demand("hpcg")
    assert pickle.loads(pickle.dumps(demand)) == demand
    assert demand.name == "hpcg"
    by_object = interleaf.predict("xeon6-cz122", workload=demand, weights="3:1")
    assert by_object == interleaf.predict("xeon6-cz122", workload="hpcg", weights="3:1")


def test_an_array_of_weights_is_predicted_with_full_precision():
    weights = np.array([[1, 0], [3, 1], [2, 1], [0, 255]])
    found = interleaf.predict("xeon6-cz122", workload="hpcg", weights=weights)
    rows = interleaf.predict("xeon6-cz122", workload="hpcg", weights=weights.tolist()).rows
    assert len(found) == len(rows) == 4
    np.testing.assert_allclose(found.bandwidth_gbps, [r.bandwidth_gbps for r in rows], rtol=1e-5)
    np.testing.assert_allclose(found.speedup, [row.speedup for row in rows], rtol=1e-5)
    np.testing.assert_allclose(
        found.tier_latency_ns, [row.tier_latency_ns for row in rows], rtol=1e-5
    )
    assert found.fits.tolist() == [row.fits for row in rows]
    assert found.tier_bandwidth_gbps.shape == (4, 2)
    with pytest.raises(ValueError, match="read-only"):
        found.speedup[0] = 1.0
    assert found.speedup[found.best] == max(found.speedup[found.fits])


def test_every_ratio():
    ratios = interleaf.every_ratio(2, 3)
    assert len(ratios) == 15
    assert ratios.any(axis=1).all()


def test_names():
    assert "hpcg" in interleaf.names("workloads")
    assert set(interleaf.names("studies")) >= {"dmi", "cz122"}
