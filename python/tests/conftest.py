"""What the tests share."""

import os
import subprocess
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def command() -> Callable[..., str]:
    """Run the command `interleaf` with arguments; returns its stdout."""
    program = os.environ.get("INTERLEAF_COMMAND", "interleaf")

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    return run
