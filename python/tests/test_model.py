"""Models over arrays."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import numpy as np
import pytest

import bentpipe as bp
from made import ticks_of_another_thread


def test_arguments_are_broadcast_and_carry_units():
    rates = bp.model.pftk(np.array([1e-4, 1e-3, 1e-2]), [["100ms"], ["550ms"]])
    assert rates.shape == (2, 3)
    assert (np.diff(rates, axis=1) < 0).all() and (rates[0] > rates[1]).all()
    assert rates[1, 1] == bp.model.pftk(1e-3, timedelta(milliseconds=550)) == bp.model.pftk("1e-3", 0.55)


def test_lists_may_have_texts_beside_numbers():
    both = bp.model.predict("6Mbit/s", ["100ms", 0.5], queue=["10MB", np.inf]).time_s
    one, other = bp.model.predict("6Mbit/s", "100ms", queue="10MB").time_s, bp.model.predict("6Mbit/s", "500ms").time_s
    assert both.tolist() == [one, other]
    assert bp.model.mathis([["1e-3"], [1e-3]], (timedelta(seconds=1), "1s")).shape == (2, 2)


def test_times_below_a_microsecond_count():
    assert bp.model.window_throughput("1kB", np.timedelta64(500, "ns")) == pytest.approx(16e9)


def test_the_book_s_figures():
    assert bp.model.limit("1MB", "6Mbit/s", "550ms") == pytest.approx(1.656, abs=1e-3)
    assert bp.model.window_throughput("65535B", "550ms") == pytest.approx(953e3, rel=1e-3)
    assert bp.model.queue_utilisation([0.0, 1.0]).tolist() == [0.75, 1.0]


def test_mathis_falls_with_the_root_of_losses():
    rates = bp.model.mathis([1e-4, 1e-2], "550ms")
    assert rates[0] / rates[1] == pytest.approx(10, rel=1e-3)


def test_a_prediction_of_nothing_has_the_types_of_others():
    nothing, one = bp.model.predict([], "550ms"), bp.model.predict("6Mbit/s", "550ms")
    assert [array.shape for array in nothing] == [(0,)] * 3
    assert [array.dtype.kind for array in nothing] == [array.dtype.kind for array in one] == ["f", "f", "U"]


def test_predictions_are_those_of_the_command(command):
    document = bp.commands.run("predict", "--rate", "6Mbit/s", "--rtt", "550ms", "--size", "1MB")
    found = bp.model.predict("6Mbit/s", ["550ms", "100ms"], size="1MB")
    assert found.time_s[0] == pytest.approx(document["time_s"], rel=1e-6)
    assert found.binding[0] and found.time_s[1] < found.time_s[0]


def test_a_ragged_list_names_the_argument():
    with pytest.raises(bp.QuantityError, match="^loss: "):
        bp.model.pftk(loss=[[1e-3], [1e-2, 1]], rtt=1)


def test_a_shape_that_does_not_fit_names_the_argument_and_what_was_expected():
    with pytest.raises(bp.QuantityError, match=r"rtt has the shape \(2,\): expected one that broadcasts against \(3,\)"):
        bp.model.mathis([1e-3] * 3, ["1s"] * 2)


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: bp.model.mathis([1e-3, 2.0], "1s"), r"loss.*element 1"),
        (lambda: bp.model.mathis(1e-3, "1"), "rtt: "),
        (lambda: bp.model.mathis(1e-3, -1), "rtt = -1 seconds: allowed 0 or more"),
        (lambda: bp.model.mathis(0.0, "1s"), "above 0"),
        (lambda: bp.model.pftk(1e-3, "1s", form="fool"), "form = fool: allowed full, received"),
        (lambda: bp.model.limit("1MB", "6Mbit/s", "1s", rounds=np.nan), "rounds = NaN"),
        (lambda: bp.model.limit("1MB", "6Mbit/s", "1s", rounds=-1), "rounds = -1"),
        (lambda: bp.model.limit("1MB", 0, "1s"), "rate = 0 bit/s: allowed 1 or more"),
        (lambda: bp.model.limit(np.inf, "6Mbit/s", "1s"), "size = inf bytes"),
        (lambda: bp.model.limit(1e300, "6Mbit/s", "1s"), "size = 1e300 bytes"),
        (lambda: bp.model.limit(1e17, "1bit/s", "1s"), "within 584 years"),
        (lambda: bp.model.mathis(np.ma.array([1e-3, 1e-2], mask=[False, True]), "1s"), "loss: values are masked"),
        (lambda: bp.model.mathis(1e-3 + 1j, "1s"), "loss: .*no number"),
        (lambda: bp.model.mathis(["1e-3", True], "1s"), "loss: True is no number"),
        (lambda: bp.model.mathis(10**400, "1s"), "loss: .*too large"),
        (lambda: bp.model.mathis(True, "1s"), "loss: True is no number"),
        (lambda: bp.model.mathis(1e-3, np.timedelta64("NaT")), "rtt = NaN"),
        (lambda: bp.model.pftk(1e-3, "1s", window="64KiB"), "window: '64KiB' is no number: expected one without a unit"),
        (lambda: bp.model.pftk(1e-3, "1s", window=[20, np.nan]), "window = NaN segments: allowed 1 segment.*element 1"),
        (lambda: bp.model.pftk(1e-3, "1s", window=-np.inf), "window = -inf segments"),
        (lambda: bp.model.predict("6Mbit/s", "1s", queue=-np.inf), "queue = -inf bytes"),
        (lambda: bp.model.mathis(1e-3, "1s", ack_every=[1, 1.9]), "ack_every = 1.9: allowed whole numbers from 1 .*element 1"),
        (lambda: bp.model.mathis(1e-3, "1s", ack_every=0), "ack_every = 0: allowed whole numbers from 1"),
        (lambda: bp.model.predict("6Mbit/s", "1s", ack_every=np.nan), "ack_every = NaN"),
        (lambda: bp.model.predict("6Mbit/s", "1s", control="vegas"), "control = vegas: allowed reno"),
    ],
)
def test_what_means_nothing_is_refused(call, told):
    with pytest.raises(bp.QuantityError, match=told):
        call()


def test_a_model_out_of_its_range_warns():
    with pytest.warns(bp.model.ModelDoubt, match="loss 0.5 is above") as doubts:
        assert bp.model.pftk([1e-3, 0.5], "1s").shape == (2,)
        bp.model.predict("6Mbit/s", "1s", loss=0.5)
    assert [doubt.filename for doubt in doubts] == [__file__] * 2


def test_other_threads_of_python_go_on():
    assert ticks_of_another_thread(lambda: bp.model.predict("6Mbit/s", np.full(400, 0.5), loss=1e-2, size="10MB")) >= 5


# Programs that a shell starts in the background ignore Ctrl-C.
LONG = """
import bentpipe as bp, numpy as np, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
bp.model
print("begun", flush=True)
try:
    bp.model.predict("6Mbit/s", np.full(200_000, 0.5), loss=1e-2, size="10MB")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_predictions_at_once():
    child = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "begun\n"
        time.sleep(0.5)
        assert child.poll() is None, "it would take minutes"
        begun = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begun < 5
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
