"""The periods of a daemon, from a socket that this test serves."""

import json
import socket
import threading

import interleaf
import pytest

PERIOD = {
    "schema": "interleaf.balance/1",
    "time_s": 2.0,
    "domain": "socket0",
    "nodes": [0, 1],
    "target_weights": [65, 35],
    "reached_share": [0.7, 0.3],
    "bandwidth_gbps": 300.5,
    "tier_bandwidth_gbps": [200.0, 100.5],
    "tier_latency_ns": [150.0, None],
    "migrated_bytes": 4096,
    "decision": "step",
    "reason": "bandwidth rose",
}


def served(path, lines):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def serve():
        connection, _ = listener.accept()
        with connection, listener:
            connection.sendall(b"".join(lines))

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_periods(tmp_path):
    path = tmp_path / "balance.sock"
    line = json.dumps(PERIOD).encode() + b"\n"
    thread = served(path, [line, line])
    with interleaf.Balance(path, timeout_s=60) as daemon:
        periods = list(daemon)
    thread.join()
    assert [period.target_weights for period in periods] == [(65, 35), (65, 35)]
    assert periods[0].tier_latency_ns == (150.0, None)


def test_periods_of_the_control_loop(command, tmp_path):
    said = command("balance", "--platform", "gnr120-cz122", "--duration", "60s", "--json")
    lines = [line for line in said.splitlines() if '"interleaf.balance/1"' in line]
    path = tmp_path / "balance.sock"
    thread = served(path, [line.encode() + b"\n" for line in lines])
    with interleaf.Balance(path, timeout_s=60) as daemon:
        periods = list(daemon)
    thread.join()
    assert len(periods) == len(lines) > 2
    for period, line in zip(periods, lines, strict=True):
        document = json.loads(line)
        assert list(period.target_weights) == document["target_weights"]
        assert period.bandwidth_gbps == document["bandwidth_gbps"]
        assert period.reason == document["reason"]


def test_a_line_after_a_timeout(tmp_path):
    path = tmp_path / "slow.sock"
    line = json.dumps(PERIOD).encode() + b"\n"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)
    with listener, interleaf.Balance(path, timeout_s=0.2) as daemon:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(line[:20])
            with pytest.raises(TimeoutError, match=r"timeout_s = 0\.2 s"):
                next(iter(daemon))
            connection.sendall(line[20:] + line[:20])
            assert next(iter(daemon)).target_weights == (65, 35)
            connection.sendall(line[20:])
        assert [period.reason for period in daemon] == ["bandwidth rose"]


def test_a_line_without_an_end(tmp_path):
    path = tmp_path / "long.sock"
    thread = served(path, [b"1" * 100_000])
    with (
        interleaf.Balance(path, timeout_s=60) as daemon,
        pytest.raises(interleaf.InputError, match="not a period"),
    ):
        next(iter(daemon))
    thread.join()


def test_a_line_that_is_no_period(tmp_path):
    path = tmp_path / "other.sock"
    thread = served(path, [b'{"time_s": 1}\n'])
    with (
        interleaf.Balance(path, timeout_s=60) as daemon,
        pytest.raises(interleaf.InputError, match="not a period"),
    ):
        next(iter(daemon))
    thread.join()
