"""Plots on matplotlib axes that one can go on working with.

Every function takes `ax` (by default the current axes) and returns it. Colours can be told apart by people with any colour vision
(Okabe and Ito), and each curve has a dash of its own, so that print without colour shows it, too. `style()` has the sizes of a paper's
column and embeds fonts in PDFs.

>>> import bentpipe as bp
>>> import matplotlib.pyplot as plt
>>> with plt.rc_context(bp.plots.style()):
...     figure, ax = plt.subplots()  # doctest: +SKIP
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from bentpipe._bentpipe import QuantityError, Table
from bentpipe.simulation import Result

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 2)))


class Look(NamedTuple):
    """The colour and the dash of a curve."""

    color: str
    linestyle: Any


def style(width_in: float = 3.5, height_in: float = 2.4) -> dict[Any, Any]:
    """Settings of matplotlib for a column of a paper: sizes, and fonts embedded in PDF and PostScript."""
    return {
        "figure.figsize": (width_in, height_in),
        "figure.constrained_layout.use": True,
        "font.size": 8,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "legend.frameon": False,
        "lines.linewidth": 1.2,
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
    }


def look(number: int) -> Look:
    """How curve `number` looks."""
    return Look(COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)])


def cwnd(result: Result, ax: Axes | None = None, *, seed: int | None = None, ssthresh: bool = True) -> Axes:
    """Congestion windows against time in kB, and slow-start thresholds as thin lines."""
    ax = _axes(ax)
    for curve in _curves(result, seed):
        (line,) = ax.plot(curve.samples["time_s"], curve.samples["cwnd_bytes"] / 1e3, label=curve.name, **curve.look._asdict())
        if ssthresh:
            ax.plot(curve.samples["time_s"], curve.samples["ssthresh_bytes"] / 1e3, color=line.get_color(), lw=0.5, ls=":")
    return _finish(ax, "time, s", "congestion window, kB")


def time_sequence(result: Result, ax: Axes | None = None, *, seed: int | None = None) -> Axes:
    """Bytes delivered against time, in MB."""
    return _traces(result, ax, seed, "delivered_bytes", 1e-6, "delivered, MB")


def throughput(result: Result, ax: Axes | None = None, *, seed: int | None = None) -> Axes:
    """What each flow delivered from sample to sample, in Mbit/s."""
    return _traces(result, ax, seed, "goodput_bps", 1e-6, "goodput, Mbit/s")


def rtt(result: Result, ax: Axes | None = None, *, seed: int | None = None) -> Axes:
    """Smoothed round-trip times against time, in ms."""
    return _traces(result, ax, seed, "srtt_s", 1e3, "smoothed RTT, ms")


def queue(result: Result, ax: Axes | None = None, *, rate_bps: float | None = None, seed: int | None = None) -> Axes:
    """What waits for each link against time, in kB; with `rate_bps`, how long that waits, in ms."""
    ax = _axes(ax)
    links, queues = result.links, result.queues
    _require(len(queues), "the scenario records no queues: set record.queue_interval")
    names = {
        (run, direction): f"{link}: {start} to {end}"
        for run, direction, link, start, end in zip(*(links[key] for key in ("run", "direction", "name", "from", "to")))
    }
    number = itertools.count()
    for run, label in _runs(result, seed):
        of_run = queues["run"] == run
        for direction in np.unique(queues["direction"][of_run]):
            rows = of_run & (queues["direction"] == direction)
            waiting = queues["queued_bytes"][rows]
            if not waiting.any():
                continue
            values = waiting / 1e3 if rate_bps is None else waiting * 8e3 / rate_bps
            name = ", ".join(filter(None, (label, names[run, direction])))
            ax.plot(queues["time_s"][rows], values, label=name, **look(next(number))._asdict())
    return _finish(ax, "time, s", "queue, kB" if rate_bps is None else "queueing delay, ms")


def dama(result: Result, ax: Axes | None = None, *, seed: int | None = None, direction: int | None = None) -> Axes:
    """What a terminal asked for, was given and used, superframe by superframe, in Mbit/s: the first, or that of `direction`, in the first
    run that has it."""
    ax = _axes(ax)
    capacity = result.capacity
    _require(len(capacity), "the scenario records no capacity: set record.capacity")
    runs, directions = capacity["run"], capacity["direction"]
    rows = np.isin(runs, [run for run, _ in _runs(result, seed)])
    _require(rows.any(), "no capacity was recorded of these runs")
    if direction is not None:
        known = ", ".join(map(str, np.unique(directions[rows])))
        rows &= directions == direction
        _require(rows.any(), f"direction = {direction}: no capacity was recorded for it; there is capacity for {known}")
    first = rows.argmax()
    rows &= (runs == runs[first]) & (directions == directions[first])
    times = capacity["time_s"][rows]
    # A value holds for the superframe that begins at its time, the last one, too.
    times = np.append(times, times[-1] + np.diff(times)[-1:].sum())
    for number, name in enumerate(("requested", "allocated", "used")):
        values = capacity[f"{name}_bps"][rows] / 1e6
        ax.step(times, np.append(values, values[-1]), where="post", label=name, **look(number)._asdict())
    # A volume is asked for at once: as a rate it would dwarf what it gets.
    most = max(capacity["allocated_bps"][rows].max(), capacity["used_bps"][rows].max()) / 1e6
    if most > 0:
        ax.set_ylim(0, 1.5 * most)
    return _finish(ax, "time, s", "capacity, Mbit/s")


def band(
    x: Sequence[float],
    samples: Mapping[str, Sequence[Sequence[float]]],
    ax: Axes | None = None,
    *,
    level: float = 0.95,
    xlabel: str = "packet loss",
    ylabel: str = "goodput, Mbit/s",
    log: bool = True,
) -> Axes:
    """Means with bands of confidence, such as goodput against loss. `samples` has for each name, at each `x`, a value for each seed."""
    ax = _axes(ax)
    _require(len(x), "x is empty: expected a value or more")
    for number, (name, values) in enumerate(samples.items()):
        _require(len(values) == len(x), f"samples[{name!r}] has {len(values)} entries: expected {len(x)}, one for each x")
        means, halves = zip(*(interval(at, level) for at in values))
        mean, half = np.array(means), np.array(halves)
        ax.plot(x, mean, label=name, marker=".", **look(number)._asdict())
        ax.fill_between(x, mean - half, mean + half, color=look(number).color, alpha=0.2, lw=0)
    if log:
        ax.set_xscale("log")
    return _finish(ax, xlabel, ylabel)


def cdf(samples: Mapping[str, Sequence[float]], ax: Axes | None = None, *, xlabel: str = "time, s") -> Axes:
    """Which share of the values does not exceed each value. What is no finite number, such as None, is left out."""
    ax = _axes(ax)
    for number, (name, values) in enumerate(samples.items()):
        ordered = np.sort(_finite(name, values))
        share = np.arange(1, len(ordered) + 1) / len(ordered)
        ax.step(ordered, share, where="post", label=name, **look(number)._asdict())
    ax.set_ylim(0, 1.02)
    return _finish(ax, xlabel, "share")


def box(samples: Mapping[str, Sequence[float]], ax: Axes | None = None, *, ylabel: str = "goodput, Mbit/s") -> Axes:
    """Medians, quartiles and extremes. What is no finite number, such as None, is left out."""
    ax = _axes(ax)
    boxes = ax.boxplot([_finite(name, values) for name, values in samples.items()], patch_artist=True, whis=(0, 100))
    for number, patch in enumerate(boxes["boxes"]):
        patch.set(facecolor=look(number).color, alpha=0.5)
    ax.set_xticks(range(1, len(samples) + 1), list(samples))
    ax.set_ylabel(ylabel)
    return ax


def fairness(result: Result, ax: Axes | None = None, *, flows: Sequence[str] | None = None) -> Axes:
    """Jain's index over the goodputs of the flows of a group (a `[[flow]]` with a `count`) in each run: the mean of the runs, a bar for
    each variant and group. With `flows`, or where no group has several flows, the index is that of these flows, or of all transfers, together.
    Flows that had no time have no goodput and are left out.
    """
    ax = _axes(ax)
    table = result.flows
    _known_flows(table, flows)
    indices: dict[str, list[float]] = {}
    for run, label in _runs(result, None, all_seeds=True):
        for group, goodputs in _competing(table, run, flows):
            if goodputs.any():
                name = ", ".join(part for part in (label, group) if part)
                indices.setdefault(name, []).append(goodputs.sum() ** 2 / (len(goodputs) * (goodputs**2).sum()))
    for number, (name, values) in enumerate(indices.items()):
        ax.bar(name or "all", np.mean(values), color=look(number).color)
    ax.set_ylim(0, 1.05)
    ax.set_ylabel("Jain's index")
    return ax


def _competing(table: Table, run: int, flows: Sequence[str] | None) -> list[tuple[str, Any]]:
    """Goodputs of flows that compete with each other, under the name of the group if there are several groups."""
    here = table["run"] == run
    goodputs, groups = table["goodput_bps"][here], table["group"][here]
    has_one = np.isfinite(goodputs)
    if flows is not None:
        return [("", goodputs[has_one & (np.isin(groups, flows) | np.isin(table["name"][here], flows))])]
    several = [group for group in dict.fromkeys(groups) if (groups == group).sum() > 1]
    if not several:
        # Pings and UDP are counted at their receiver, and transfers are not.
        return [("", goodputs[has_one & (table["received_packets"][here] == 0)])]
    return [(group if len(several) > 1 else "", goodputs[has_one & (groups == group)]) for group in several]


def _known_flows(table: Table, flows: Sequence[str] | None) -> None:
    known = {*table["name"], *table["group"]}
    for name in flows or ():
        _require(name in known, f"there is no flow and no group {name!r}; there are {', '.join(sorted(known))}")


def paper(
    document: Mapping[str, Any],
    item: str,
    ax: Axes | None = None,
    *,
    curves: Sequence[str] | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    log: bool | None = None,
) -> Axes:
    """A table or figure of a paper, from what `bp.papers` gives: what is simulated with its interval of confidence, the model as a thin
    line, and what the paper prints as marks.

    Entries are called `CURVE, X=NUMBER` or `X=NUMBER`: others, such as claims, are left out. `curves` chooses some. The axis of X is
    logarithmic by default if it spans more than a factor of 30.
    """
    ax = _axes(ax)
    found, unit = _entries(document, item)
    chosen = list(found) if curves is None else list(curves)
    unknown = [curve for curve in chosen if curve not in found]
    _require(not unknown, f"{item} has no curve {', '.join(unknown)}: it has {', '.join(found) or 'none'}")
    xs = [x for curve in chosen for x in found[curve] if x > 0]
    for number, curve in enumerate(chosen):
        _paper_curve(ax, curve, found[curve], look(number))
    if log if log is not None else max(xs, default=0) > 30 * min(xs, default=0):
        ax.set_xscale("log")
    return _finish(ax, xlabel or next(name for points in found.values() for name in {at.x for at in points.values()}), ylabel or unit)


class _Entry(NamedTuple):
    x: str
    printed: float
    model: float
    simulated: float
    low: float
    high: float


def _entries(document: Mapping[str, Any], item: str) -> tuple[dict[str, dict[float, _Entry]], str]:
    """The entries of an item by curve and x, and their unit."""
    items = {at["item"]: at for paper in document["papers"] for at in paper["items"]}
    _require(item in items, f"there is no item {item}: there are {', '.join(items)}")
    curves: dict[str, dict[float, _Entry]] = {}
    for entry in items[item]["entries"]:
        found = re.fullmatch(r"(?:(?P<curve>.+), )?(?P<name>[^,=]+)=(?P<x>[-+.\d]+(?:e[-+]?\d+)?)", entry["key"])
        if found:
            low, high = entry["interval"] or (None, None)
            numbers = (entry["corrected"] or entry["printed"], entry["model"], entry["simulated"], low, high)
            points = curves.setdefault(found["curve"] or "", {})
            points[float(found["x"])] = _Entry(found["name"], *(np.nan if number is None else number for number in numbers))
    _require(curves, f"{item} has no entries with a number for an axis, such as P=1e-3")
    return curves, items[item]["unit"]


def _paper_curve(ax: Axes, name: str, points: Mapping[float, _Entry], look: Look) -> None:
    xs = np.array(list(points))
    columns = {key: np.array([getattr(point, key) for point in points.values()]) for key in ("printed", "model", "simulated", "low", "high")}
    has = {key: bool(np.isfinite(values).any()) for key, values in columns.items()}
    prefix = f"{name}, " if name else ""
    several = has["printed"] or not name
    if has["simulated"]:
        ax.plot(xs, columns["simulated"], label=f"{prefix}simulated" if several else name, marker=".", **look._asdict())
        ax.fill_between(xs, columns["low"], columns["high"], color=look.color, alpha=0.2, lw=0)
    if has["model"]:
        ax.plot(xs, columns["model"], color=look.color, lw=0.5, ls=":", label=None if has["simulated"] else f"{prefix}model")
    if has["printed"]:
        ax.plot(xs, columns["printed"], color=look.color, ls="", marker="x", label=f"{prefix}printed")


def interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """The mean, and half the width of its confidence interval (Student's t); NaN if there is only one value."""
    array = np.asarray(values, dtype=float)
    _require(array.size, "there are no values: expected one or more")
    if array.size == 1:
        return float(array[0]), float("nan")
    return float(array.mean()), float(_student(level, array.size - 1) * array.std(ddof=1) / np.sqrt(array.size))


def _student(level: float, freedom: int) -> float:
    """The quantile of Student's t that leaves (1 - level) / 2 above it, by bisection over its numeric distribution."""
    angles = np.linspace(0, np.pi / 2, 20_001)[:-1]
    # With t = sqrt(freedom) tan(angle), the density is proportional to cos(angle) to the power freedom - 1.
    mass = np.concatenate([[0.0], np.cumsum((np.cos(angles[1:]) ** (freedom - 1) + np.cos(angles[:-1]) ** (freedom - 1)) / 2)])
    return float(np.sqrt(freedom) * np.tan(np.interp(level, mass / mass[-1], angles)))


class _Curve(NamedTuple):
    name: str
    look: Look
    samples: dict[str, Any]


def _curves(result: Result, seed: int | None) -> Iterator[_Curve]:
    """The samples of each flow of each variant's run: with `seed`, or with the first."""
    samples, flows = result.samples, result.flows
    _require(len(samples), "the scenario records no samples: set record.interval")
    names = {(run, flow): name for run, flow, name in zip(flows["run"], flows["flow"], flows["name"])}
    columns = {name: samples[name] for name in samples.columns}
    number = itertools.count()
    for run, label in _runs(result, seed):
        of_run = columns["run"] == run
        numbers = np.unique(columns["flow"][of_run])
        for flow in numbers:
            rows = of_run & (columns["flow"] == flow)
            parts = (label, names[run, flow] if len(numbers) > 1 or not label else "")
            yield _Curve(", ".join(filter(None, parts)), look(next(number)), {name: values[rows] for name, values in columns.items()})


def _runs(result: Result, seed: int | None, all_seeds: bool = False) -> Iterator[tuple[int, str]]:
    """The number and the variant of each variant's run with `seed`, of its first run, or of all."""
    seen = set()
    runs: Table = result.runs
    known = dict.fromkeys(runs["seed"].tolist())
    _require(seed is None or seed in known, f"seed = {seed}: no run has it; there are {', '.join(map(str, known))}")
    for run, variant, made_with in zip(runs["run"], runs["variant"], runs["seed"]):
        if all_seeds or (variant not in seen and seed in (None, made_with)):
            seen.add(variant)
            yield int(run), variant or ""


def _traces(result: Result, ax: Axes | None, seed: int | None, column: str, scale: float, label: str) -> Axes:
    ax = _axes(ax)
    for curve in _curves(result, seed):
        ax.plot(curve.samples["time_s"], curve.samples[column] * scale, label=curve.name, **curve.look._asdict())
    return _finish(ax, "time, s", label)


def _axes(ax: Axes | None) -> Axes:
    return plt.gca() if ax is None else ax


def _finish(ax: Axes, xlabel: str, ylabel: str) -> Axes:
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if ax.get_legend_handles_labels()[0]:
        ax.legend()
    return ax


def _finite(name: str, values: Sequence[float]) -> Any:
    """The finite numbers among the `values` of a series."""
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    _require(len(numbers), f"samples[{name!r}] has no finite value: expected a value or more")
    return numbers


def _require(condition: object, text: str) -> None:
    if not condition:
        raise QuantityError(text)
