"""Long calls: progress, signals, threads, forks."""

import os
import signal
import subprocess
import sys
import threading
import time

import interleaf
import pytest

#: A simulation that takes hours if no signal ends it.
LONG = """
import interleaf, signal, sys
# A shell starts background commands with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def report(done, total, task):
    print("running", flush=True)
try:
    interleaf.simulate.dimm("rdimm-6400-2r", load="sweep", requests=10**12, progress=report)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    import os
    os._exit(7)
"""


def test_an_interrupt_ends_a_long_call():
    child = subprocess.Popen(
        [sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(300) == 7
        assert "interrupted" in child.stdout.read()
    finally:
        child.kill()
        child.stdout.close()


def test_an_exception_of_the_progress_is_raised():
    calls = []

    def report(done, total, task):
        calls.append((done, total, task))
        assert 0 <= done <= total

    interleaf.simulate.machine(scenario="shifting-demand", duration="5s", progress=report)
    assert calls[-1][0] == calls[-1][1]


def test_threads_run_at_once():
    results = []

    def run(seed):
        results.append(
            interleaf.simulate.machine(scenario="shifting-demand", duration="2s", seed=seed)
        )

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 4


def in_child(compute):
    """Call a function in a forked child; return whether it succeeded within a minute."""
    child = os.fork()
    if child == 0:
        try:
            compute()
        except BaseException:
            os._exit(1)
        os._exit(0)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


class Keep:
    """Keeps all pages where they are."""

    def decide(self, observation):
        return list(observation.target)


@pytest.mark.parametrize(
    "compute",
    [
        lambda: interleaf.predict("xeon6-cz122", mix="R").best.weights,
        lambda: interleaf.predict(
            "xeon6-cz122", mix="R", weights=[f"{first}:1" for first in range(1, 13)]
        ),
        lambda: interleaf.simulate.machine(
            scenario="shifting-demand", duration="1s", page_groups=4096, policy=Keep
        ),
    ],
    ids=["every ratio", "few weights", "own policy"],
)
def test_a_forked_child_computes(compute):
    compute()
    assert in_child(compute)


def test_progress_with_an_own_policy():
    calls = []
    interleaf.simulate.machine(
        scenario="shifting-demand", duration="5s", policy=Keep, compare=True,
        progress=lambda *state: calls.append(state),
    )  # fmt: skip
    assert all(0 <= done <= total for done, total, _ in calls)
    assert calls[-1][0] == calls[-1][1] > 0

    def fail(*_state):
        raise ZeroDivisionError("no progress")

    with pytest.raises(ZeroDivisionError, match="no progress"):
        interleaf.simulate.machine(
            scenario="shifting-demand", duration="600s", policy=Keep, progress=fail
        )


class Interrupted(Exception):
    """Raised by the handler of a signal."""


@pytest.fixture
def alarm():
    """Return a function that lets a signal raise :class:`Interrupted` after some seconds."""

    def handle(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handle)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_signal_ends_the_policies_beside_an_own_one(alarm):
    """The signal comes while built-in policies are simulated, which call no Python."""

    def report(_done, _total, task):
        if task not in ("", "the best static weights", "Keep"):
            alarm(0.001)

    with pytest.raises(Interrupted):
        interleaf.simulate.machine(
            scenario="shifting-demand", duration="3h", policy=Keep, compare=True, progress=report
        )


def test_the_steps_of_a_study():
    calls = []
    interleaf.reproduce("gnr120-interleaving", progress=lambda *state: calls.append(state))
    done, total, task = calls[-1]
    assert (done, task) == (total, "gnr120-interleaving")
    assert total > 1
