"""Long calls: progress, signals, threads, forks."""

import os
import signal
import subprocess
import sys
import threading

import interleaf

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


def test_a_forked_child_computes():
    interleaf.predict("xeon6-cz122", mix="R")
    child = os.fork()
    if child == 0:
        found = interleaf.predict("xeon6-cz122", mix="R")
        os._exit(0 if found.best else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
