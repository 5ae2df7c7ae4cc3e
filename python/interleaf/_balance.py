"""The periods of a running daemon, as they come."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import TracebackType

from ._errors import InputError
from ._options import number, path_of
from ._records import _immutable

#: The daemon's default socket.
SOCKET = "/run/interleaf/balance.sock"

#: The longest wait for a period, s: a year.
TIMEOUT_MAX_S = 366 * 86400.0

#: The longest line, bytes: the limit of `interleaf balance --monitor` too.
LINE_MAX = 1 << 16


@dataclass(frozen=True)
class BalancePeriod:
    """One period of the daemon in one domain; lists are by node, the fastest first."""

    time_s: float
    domain: str
    nodes: tuple[int, ...]
    target_weights: tuple[int, ...]
    reached_share: tuple[float, ...] | None
    bandwidth_gbps: float | None
    tier_bandwidth_gbps: tuple[float, ...]
    tier_latency_ns: tuple[float | None, ...]
    migrated_bytes: int
    decision: str
    reason: str


class Balance:
    """Connects to the monitor socket of ``interleaf balance``, and yields its periods.

    The daemon first repeats its history.

    >>> with interleaf.Balance("/run/interleaf/balance.sock") as daemon:  # doctest: +SKIP
    ...     for period in daemon:
    ...         print(period.target_weights, period.reason)

    Args:
        path: The socket of the daemon.
        timeout_s: The longest wait for a period, s. Default: no limit.

    Raises:
        InputError: No daemon listens there, or this user may not watch it.
    """

    def __init__(
        self, path: str | os.PathLike[str] = SOCKET, *, timeout_s: float | None = None
    ) -> None:
        name = path_of("path", path)
        if timeout_s is not None and not 0 < number("timeout_s", timeout_s) <= TIMEOUT_MAX_S:
            hint = f"give seconds above 0 and at most {TIMEOUT_MAX_S:.0f}"
            raise InputError(f"timeout_s = {timeout_s}", hint)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        self._timeout_s = timeout_s
        try:
            self._socket.connect(name)
        except PermissionError:
            self._socket.close()
            raise InputError(
                f"{path}: only the user who runs the daemon may watch it", "watch as that user"
            ) from None
        except (OSError, ValueError) as why:
            self._socket.close()
            hint = "start it with `interleaf balance`, or name its socket"
            raise InputError(f"{path}: no daemon is there to be watched: {why}", hint) from None
        # Received bytes that no period has used. After a timeout they are kept for the next one.
        self._received = bytearray()

    def __iter__(self) -> Iterator[BalancePeriod]:
        """Yield the periods until the daemon ends.

        Raises:
            TimeoutError: No period came in time. The next iterator continues where this one ended.
            InputError: The socket sent a line that is not a period.
        """
        while line := self._line():
            yield _period(line)

    def _line(self) -> bytes:
        """Return the next line, at most LINE_MAX bytes of it; nothing at the end of the daemon."""
        end = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while b"\n" not in self._received and len(self._received) < LINE_MAX:
            if end is not None:
                # A timeout of 0 would make the socket non-blocking.
                self._socket.settimeout(max(end - time.monotonic(), 1e-6))
            try:
                received = self._socket.recv(LINE_MAX)
            except TimeoutError:
                raise TimeoutError(f"no period within timeout_s = {self._timeout_s} s") from None
            if not received:
                break
            self._received += received
        size = min(self._received.find(b"\n") + 1 or len(self._received), LINE_MAX)
        line = bytes(self._received[:size])
        del self._received[:size]
        return line

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> Balance:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        why: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _period(line: bytes) -> BalancePeriod:
    hint = "connect to the monitor socket of `interleaf balance`"
    try:
        data = json.loads(line)
        values = {field.name: _immutable(data[field.name]) for field in fields(BalancePeriod)}
    except (ValueError, KeyError, TypeError) as why:
        raise InputError(f"a line of the socket is not a period: {why!r}", hint) from None
    return BalancePeriod(**values)
