"""Congestion controls in Python, for a quick idea: they run inside the simulator (docs/python.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bentpipe._bentpipe import Ack, InputError, Loss, Sent, Start, Window

# What the simulator calls only where a class has it.
_OPTIONAL = ("on_connected", "on_ack", "grow", "on_recovered", "on_sent", "pacing_rate")


class CongestionControl:
    """A congestion control: a subclass has at least `grow` and `on_loss`.

    Windows are in segments and keep their fraction. The scenario's loss recovery decides what is lost, and moves `cwnd` while it
    repairs a loss; a class with `governs_window = True` sets `cwnd` itself at all times, in `on_ack`, and has no `grow`. Every
    connection has an object of its own.
    """

    governs_window = False
    """Whether it sets `cwnd` itself at all times."""

    def on_connected(self, start: Start, window: Window) -> None:
        """The connection is established, and the window at its initial value."""

    def on_ack(self, ack: Ack, window: Window) -> None:
        """Every acknowledgement, duplicates included, before the recovery acts on it: to measure. A control that governs the
        window sets it here, after the recovery has found what is lost."""

    def grow(self, ack: Ack, window: Window) -> None:
        """New data was acknowledged outside recovery, and the window was in use: it may grow."""
        raise NotImplementedError(f"{type(self).__name__} has no grow")

    def on_loss(self, loss: Loss, window: Window) -> None:
        """A loss, once for each window of data: sets `window.ssthresh` to what the window is to be after the repair."""
        raise NotImplementedError(f"{type(self).__name__} has no on_loss")

    def on_timeout(self, timeout: Loss, window: Window) -> None:
        """The retransmission timer expired: by default as at a loss, and slow start from one segment (RFC 5681). Within a recovery
        `ssthresh` does not rise: what is sent for duplicate acknowledgements makes the flight larger than any window was."""
        if timeout.expiries == 1:
            before = window.ssthresh
            self.on_loss(timeout, window)
            if timeout.state == "recovery":
                window.ssthresh = min(window.ssthresh, before)
        window.cwnd = 1.0

    def on_recovered(self, ack: Ack, window: Window) -> None:
        """What was outstanding at a loss is acknowledged."""

    def on_sent(self, sent: Sent) -> None:
        """A data segment leaves."""

    def pacing_rate(self, window: Window) -> float | None:
        """The rate in bit/s at which payload may leave; None: as fast as the window opens."""
        return None


Make = Callable[[], CongestionControl]
"""Makes a control: its class, or any function that does."""

Controls = Make | Mapping[str, Make]
"""What makes the control of every TCP flow, or of the flows of each name."""


def makers(controls: Controls) -> list[tuple[str | None, Callable[[], dict[str, Any]]]]:
    """Names of flows, and what gives the methods of a new control for them."""
    if isinstance(controls, Mapping):
        return [(name, _maker(make)) for name, make in controls.items()]
    return [(None, _maker(controls))]


def _maker(make: Make) -> Callable[[], dict[str, Any]]:
    if not callable(make):
        raise InputError(f"controls: {make!r}: expected a subclass of bentpipe.CongestionControl, or a function that makes one")

    def made() -> dict[str, Any]:
        control = make()
        if not isinstance(control, CongestionControl):
            raise InputError(f"controls: {make!r} made {control!r}: expected a bentpipe.CongestionControl")
        return methods(control)

    return made


def methods(control: CongestionControl) -> dict[str, Any]:
    """The methods of a control by name: None for those that its class does not have."""
    kind = type(control)
    found = {name: None if getattr(kind, name) is getattr(CongestionControl, name) else getattr(control, name) for name in _OPTIONAL}
    if not kind.governs_window:
        found["grow"] = control.grow
    return {
        "name": kind.__name__,
        "governs_window": bool(control.governs_window),
        "on_loss": control.on_loss,
        "on_timeout": control.on_timeout,
        **found,
    }
