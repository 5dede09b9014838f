"""Closed-form models of TCP over NumPy arrays (docs/models.md).

Every argument is a number in its base unit (seconds, bit/s, bytes), a text with a unit, a `timedelta`, or an array of any of these.
Arguments are broadcast against one another. Where a model does not hold, its value stands and a `ModelDoubt` warning says why.

>>> import bentpipe as bp
>>> bp.model.pftk(loss=[1e-4, 1e-3, 1e-2], rtt="550ms").shape
(3,)
"""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bentpipe import _bentpipe
from bentpipe._bentpipe import QuantityError

Floats = NDArray[np.float64]


class ModelDoubt(UserWarning):
    """A model was asked for a value outside the range in which it holds."""


class Prediction(NamedTuple):
    """What is predicted of transfers."""

    time_s: Floats
    """From connect to the receiver's last byte."""
    throughput_bps: Floats
    """Data over that time."""
    binding: NDArray[np.str_]
    """What answers for most of the time."""


def mathis(loss: Any, rtt: Any, *, mss: Any = "1448B", ack_every: Any = 2) -> Floats:
    """The throughput of Reno with losses, in bit/s (Mathis et al. 1997)."""
    return _losses("mathis", loss, rtt, mss, ack_every, 1.0, np.inf)


def pftk(
    loss: Any,
    rtt: Any,
    *,
    mss: Any = "1448B",
    ack_every: Any = 2,
    rto: Any = "1s",
    window: Any = np.inf,
    form: str = "full",
) -> Floats:
    """The throughput of Reno with losses and timeouts, in bit/s (Padhye et al. 1998). `window` is in segments.

    `form` is "full" (what is sent), "received" or "approximate".
    """
    names = {"full": "pftk", "received": "pftk-received", "approximate": "pftk-approximate"}
    if form not in names:
        raise QuantityError(f"form = {form}: allowed {', '.join(names)}")
    return _losses(names[form], loss, rtt, mss, ack_every, rto, window)


def cubic(loss: Any, rtt: Any, *, mss: Any = "1448B", ack_every: Any = 2) -> Floats:
    """The throughput of CUBIC with losses, in bit/s (RFC 9438)."""
    return _losses("cubic", loss, rtt, mss, ack_every, 1.0, np.inf)


def window_throughput(window: Any, rtt: Any) -> Floats:
    """The throughput of one window (bytes) in a round trip, in bit/s."""
    shape, (window, rtt) = _broadcast(window=(window, "size"), rtt=(rtt, "time"))
    return _bentpipe.window_throughput(window, rtt).reshape(shape)


def limit(size: Any, rate: Any, rtt: Any, *, loss: Any = 0.0, rounds: Any = 0.5) -> Floats:
    """The least time in which `size` can cross a link, in seconds, whatever the protocol.

    `rounds` is 0.5 if the client sends, 1 if it asks and the server sends.
    """
    shape, arrays = _broadcast(
        rounds=(rounds, None), size=(size, "size"), rate=(rate, "rate"), rtt=(rtt, "time"), loss=(loss, "probability")
    )
    return _bentpipe.link_limit(*arrays).reshape(shape)


def queue_utilisation(queue: Any, beta: Any = 0.5) -> Floats:
    """The share of its rate that a link carries for one connection. `queue` is in bandwidth-delay products."""
    shape, arrays = _broadcast(queue=(queue, None), beta=(beta, None))
    return _bentpipe.queue_utilisation(*arrays).reshape(shape)


def predict(
    rate: Any,
    rtt: Any,
    *,
    size: Any = "1MB",
    loss: Any = 0.0,
    queue: Any = np.inf,
    window: Any = np.inf,
    initial_window: Any = 10,
    ack_every: Any = 2,
    control: str = "cubic",
    direction: str = "up",
) -> Prediction:
    """What a link allows a transfer, as `bentpipe predict` has it. `queue` and `window` are in bytes.

    `control` is reno, cubic, hybla or bbr; `direction` is "up" if the client sends, "down" if the server does.
    """
    if direction not in ("up", "down"):
        raise QuantityError(f"direction = {direction}: allowed up, down")
    shape, arrays = _broadcast(
        rate=(rate, "rate"),
        rtt=(rtt, "time"),
        loss=(loss, "probability"),
        size=(size, "size"),
        queue=(queue, "size"),
        window=(window, "size"),
        initial_window=(initial_window, None),
        ack_every=(ack_every, None),
    )
    times, rates, binding, doubt = _bentpipe.predict(control, direction == "up", *arrays)
    _doubt(doubt, 3)
    return Prediction(times.reshape(shape), rates.reshape(shape), np.array(binding, dtype=np.str_).reshape(shape))


def _losses(name: str, loss: Any, rtt: Any, mss: Any, ack_every: Any, rto: Any, window: Any) -> Floats:
    shape, arrays = _broadcast(
        loss=(loss, "probability"),
        rtt=(rtt, "time"),
        mss=(mss, "size"),
        ack_every=(ack_every, None),
        rto=(rto, "time"),
        window=(window, None),
    )
    values, doubt = _bentpipe.loss_model(name, *arrays)
    _doubt(doubt, 4)
    return values.reshape(shape)


def _doubt(text: str | None, level: int) -> None:
    """Warns, if there is a doubt, at the line that called the model: `level` functions up, this one included."""
    if text is not None:
        warnings.warn(text, ModelDoubt, stacklevel=level)


def _broadcast(**arguments: tuple[Any, str | None]) -> tuple[tuple[int, ...], list[Floats]]:
    """The common shape, and each argument in it, flat."""
    arrays = {name: _floats(name, value, kind) for name, (value, kind) in arguments.items()}
    shape: tuple[int, ...] = ()
    for name, array in arrays.items():
        try:
            shape = np.broadcast_shapes(shape, array.shape)
        except ValueError:
            raise QuantityError(
                f"{name} has the shape {array.shape}: expected one that broadcasts against {shape}, that of the arguments before it"
            ) from None
    return shape, [np.ascontiguousarray(np.broadcast_to(array, shape)).ravel() for array in arrays.values()]


def _floats(name: str, value: Any, kind: str | None) -> Floats:
    """`value` as floating-point numbers in the base unit of `kind`."""
    if np.ma.is_masked(value):
        raise QuantityError(f"{name}: values are masked: expected one for each element; compressed() leaves the others out")
    try:
        array = np.asarray(value)
        if array.dtype.kind in "US" and isinstance(value, (list, tuple)):
            # Beside texts, NumPy makes texts of numbers.
            array = np.array(value, dtype=object)
        if array.dtype.kind in "fiu":
            return array.astype(np.float64)
        return np.array([_number(item, kind) for item in array.ravel()], dtype=np.float64).reshape(array.shape)
    except (TypeError, ValueError, OverflowError, QuantityError) as error:
        raise QuantityError(f"{name}: {error}") from None


def _number(item: Any, kind: str | None) -> float:
    if isinstance(item, (timedelta, np.timedelta64)):
        if kind != "time":
            raise QuantityError("a timedelta is a time, and none was expected")
        return item.total_seconds() if isinstance(item, timedelta) else float(item / np.timedelta64(1, "s"))
    if isinstance(item, str):
        return _bentpipe.quantity(kind, str(item)) if kind is not None else _plain_number(str(item))
    if isinstance(item, (bool, np.bool_, complex, np.complexfloating)):
        raise QuantityError(f"{item} is no number that a model takes")
    return float(item)


def _plain_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise QuantityError(f"{text!r} is no number: expected one without a unit") from None
