"""Congestion controls in Python, inside the simulator."""

import math
import os
import signal
import subprocess
import sys
import time

import pytest

import bentpipe as bp
from newreno import NewReno


@pytest.fixture
def reno(scenario):
    """The control in Rust that `NewReno` repeats, with a trace."""
    return scenario.with_settings({"flow.file.tcp": "newreno"})


@pytest.mark.parametrize("loss, timeouts", [(0.0, False), (5e-3, False), (0.1, True)])
def test_newreno_in_python_gives_the_trace_of_newreno_in_rust(reno, loss, timeouts):
    reno["link.sat.loss"], reno["link.sat.queue"] = loss, "1MB"
    rust, python = (bp.simulate(reno, seeds=3, controls=controls) for controls in (None, NewReno))
    for name in ("runs", "flows", "links", "samples", "queues"):
        assert getattr(python, name).to_polars().equals(getattr(rust, name).to_polars()), name
    assert len(rust.samples) > 50 and (rust.flows["rtos"].sum() > 0) == timeouts
    assert (rust.flows["retransmissions"].sum() > 0) == (loss > 0)


def test_each_flow_of_each_run_has_an_object_of_its_own(reno):
    made = []

    def make():
        made.append(NewReno())
        return made[-1]

    bp.simulate(reno, seeds=3, controls={"file": make})
    assert len({id(control) for control in made}) == 3


def test_a_control_that_governs_the_window_paces_and_measures(scenario):
    class Steady(bp.CongestionControl):
        """As much as the link holds, paced at its rate."""

        governs_window = True
        rates, sent = [], []

        def on_connected(self, start, window):
            assert start.mss == 1448 and start.rtt in (None, pytest.approx(0.04, abs=0.01))

        def on_ack(self, ack, window):
            window.cwnd = 25.0
            self.rates.append(ack.rate)

        def on_loss(self, loss, window):
            assert loss.flight > 0

        def on_sent(self, sent):
            self.sent.append(sent.bytes)

        def pacing_rate(self, window):
            return 5e6

    scenario["link.sat.loss"] = 0.0
    scenario["flow.file.bulk.size"] = "1MB"
    result = bp.simulate(scenario, controls=Steady)
    assert sum(Steady.sent) == 1_000_001, "and the FIN"
    windows = result.samples["cwnd_bytes"][result.samples["time_s"] > 0.3]
    assert len(windows) > 50 and set(windows.tolist()) == {25 * 1448}
    assert max(filter(None, Steady.rates)) == pytest.approx(5e6, rel=0.05)
    assert result.flows["goodput_bps"][0] == pytest.approx(5e6, rel=0.1)


def test_an_exception_of_a_control_ends_the_run_and_is_raised(reno):
    calls = []

    class Broken(NewReno):
        def grow(self, ack, window):
            calls.append(ack)
            if len(calls) == 10:
                raise ZeroDivisionError("what now?")

    with pytest.raises(ZeroDivisionError, match="what now") as error:
        bp.simulate(reno, seeds=5, controls=Broken)
    assert len(calls) == 10 and error.traceback[-1].name == "grow"


@pytest.mark.parametrize("cwnd", [math.nan, math.inf, 0.5, -3.0])
def test_a_window_that_cannot_be_is_told_with_the_method_that_set_it(reno, cwnd):
    class Wrong(NewReno):
        def grow(self, ack, window):
            window.cwnd = cwnd

    with pytest.raises(bp.InputError, match=r"Wrong\.grow set cwnd = .*: allowed a number of segments, 1 or more"):
        bp.simulate(reno, controls=Wrong)


@pytest.mark.parametrize(
    "controls, told",
    [
        ({"flie": NewReno}, "the scenario has no flow flie; it has file"),
        (lambda: 3, "made 3: expected a bentpipe.CongestionControl"),
        (3, "3: expected a subclass of bentpipe.CongestionControl"),
    ],
)
def test_what_is_no_control_of_a_flow_is_refused(reno, controls, told):
    with pytest.raises(bp.InputError, match=told):
        bp.simulate(reno, controls=controls)


def test_a_class_without_the_methods_that_it_needs_is_told(reno):
    class Empty(bp.CongestionControl):
        pass

    with pytest.raises(NotImplementedError, match="Empty has no grow"):
        bp.simulate(reno, controls=Empty)


def test_what_does_not_fit_the_rest_of_the_flow_is_refused(reno):
    class Governing(NewReno):
        governs_window = True

    with pytest.raises(bp.ScenarioError, match="recovery `reno` is a rule for the window"):
        bp.simulate(reno.with_settings({"flow.file.tcp": "reno"}), controls=Governing)
    with pytest.raises(bp.InputError, match="jobs = 2: with controls in Python"):
        bp.simulate(reno, controls=NewReno, jobs=2)


# Programs that a shell starts in the background ignore Ctrl-C.
ENDLESS = """
import bentpipe as bp, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)

class Slow(bp.CongestionControl):
    def grow(self, ack, window):
        print("begun", flush=True)
        while True:
            pass
    def on_loss(self, loss, window):
        pass

try:
    bp.simulate(sys.argv[1], variants="cubic", seeds=1, controls=Slow)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_even_a_control_that_never_returns(scenarios):
    child = subprocess.Popen([sys.executable, "-c", ENDLESS, scenarios / "geo-bulk.toml"], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "begun\n"
        begun = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.wait(timeout=20) == 0 and time.monotonic() - begun < 10
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
