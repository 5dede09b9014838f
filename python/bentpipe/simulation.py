"""Simulations in virtual time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from bentpipe import _bentpipe
from bentpipe._bentpipe import InputError, LimitError, Table
from bentpipe.congestion import Controls, makers
from bentpipe.scenarios import Scenario, choose_seeds, choose_variants, kept, whole

Progress = bool | Callable[[int, int], Any]
"""Whether a bar shows how far runs are, or what is called with the number of runs that have ended, and of all."""

# What `trace` calls columns of samples.
_TRACES = {
    "cwnd": "cwnd_bytes",
    "ssthresh": "ssthresh_bytes",
    "srtt": "srtt_s",
    "delivered": "delivered_bytes",
    "goodput": "goodput_bps",
    "in_flight": "in_flight_bytes",
}


# More threads than any machine has processors.
_MOST_JOBS = 100_000


class Result:
    """What simulations found. Each table is handed to polars, pyarrow or pandas without a copy of its numbers.

    Runs, flows and directions of links have numbers: `run` counts all runs, `flow` and `direction` the rows of `flows` and `links`
    of one run. Columns end in their unit.
    """

    def __init__(self, found: _bentpipe.Result) -> None:
        self._found = found

    @property
    def runs(self) -> Table:
        """A row for each run: variant, seed, why (`stopped`) and when (`end_s`) it ended."""
        return self._found.runs

    @property
    def flows(self) -> Table:
        """A row for each flow of each run."""
        return self._found.flows

    @property
    def links(self) -> Table:
        """A row for each direction of each link of each run."""
        return self._found.links

    @property
    def samples(self) -> Table:
        """A row for each sample of each flow, if the scenario has `record.interval`."""
        return self._found.samples

    @property
    def queues(self) -> Table:
        """A row for each sample of each queue, if the scenario has `record.queue_interval`."""
        return self._found.queues

    @property
    def capacity(self) -> Table:
        """A row for each superframe of each terminal, if the scenario has `record.capacity`."""
        return self._found.capacity

    def trace(self, *names: str) -> Table:
        """Columns of the samples of flows, behind `run`, `flow` and `time_s`: cwnd, ssthresh, srtt, delivered, goodput, in_flight."""
        unknown = [name for name in names if name not in _TRACES]
        if unknown:
            raise KeyError(f"there is no trace {unknown[0]}; there are {', '.join(_TRACES)}")
        return self._found.trace([_TRACES[name] for name in names])

    @property
    def wall_s(self) -> float:
        """From the first run to the last, in seconds."""
        return self._found.wall_s

    @property
    def cpu_s(self) -> float:
        """Processor time of all runs together, in seconds."""
        return self._found.cpu_s

    def __repr__(self) -> str:
        return f"<bentpipe.Result of {len(self.runs)} runs>"


def simulate(
    scenario: Scenario | str | os.PathLike[str],
    *,
    seeds: int | Iterable[int] | None = None,
    variants: Iterable[str] | None = None,
    jobs: int | None = None,
    record: bool = True,
    progress: Progress = False,
    controls: Controls | None = None,
) -> Result:
    """Runs each variant of `scenario` with each seed, `jobs` at a time (by default one for each processor).

    `seeds` is a count from each variant's first seed on, or the seeds; by default those of each variant. The same seed gives the
    same results. Without `record` no samples are kept, whatever the scenario records. `progress` is True, for a bar (of tqdm, if it
    is installed), or is called with the number of runs that have ended and of all.

    `controls` replaces the congestion control of flows by one in Python: a `CongestionControl`, for every TCP flow, or one for each of
    some flows (`{"file": MyControl}`). Then runs are made one after the other on this thread, and an exception of a control ends them.

    Python's lock is released, and Ctrl-C ends the runs at once. Raises `ScenarioError` if the scenario cannot be, `LimitError` if
    runs stopped at a limit of the scenario: its `result` has all runs, those marked by `stopped`.
    """
    experiment = Scenario.of(scenario).check()
    chosen, seeds = choose_variants(experiment, variants), kept(seeds)
    runs = [(variant, seed) for variant in chosen for seed in choose_seeds(experiment, variant, seeds)]
    jobs_at_once = choose_jobs(jobs)
    if controls is not None and jobs is not None and jobs_at_once != 1:
        raise InputError(f"jobs = {jobs}: with controls in Python runs are made one after the other: allowed 1, or none")
    # The tables are read with it in the end: if it cannot be imported, no run is made for nothing.
    import numpy  # noqa: F401

    report, close = reporter(progress, len(runs))
    try:
        if controls is not None:
            found = _bentpipe.simulate_controlled(experiment, runs, makers(controls), record, report)
        else:
            found = _bentpipe.simulate(experiment, runs, jobs_at_once, record, report)
    finally:
        close()
    result = Result(found)
    names = [run_name(variant, seed) for variant, seed in zip(result.runs["variant"], result.runs["seed"])]
    raise_at_limits(zip(names, result.runs["stopped"]), result)
    return result


def run_name(variant: str | None, seed: int) -> str:
    """What texts call a run."""
    return f"seed {seed}" if variant is None else f"{variant}, seed {seed}"


def raise_at_limits(runs: Iterable[tuple[str, str]], result: Any) -> None:
    """Raises `LimitError` with `result` if some of `runs`, each with its name and why it stopped, stopped at a limit."""
    text = _bentpipe.at_limits(list(runs))
    if text is not None:
        error = LimitError(text)
        error.result = result
        raise error


def choose_jobs(jobs: int | None) -> int:
    """How many runs go on side by side."""
    if jobs is None:
        return processors()
    number = whole(jobs)
    if number is None or not 1 <= number <= _MOST_JOBS:
        raise InputError(f"jobs = {jobs!r}: expected a whole number from 1 to {_MOST_JOBS}, or None for one for each processor")
    return number


def processors() -> int:
    """How many processors this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def reporter(progress: Progress, total: int) -> tuple[Callable[[int], Any] | None, Callable[[], Any]]:
    """What is called with the number of runs that have ended, and what is called at the end."""
    if callable(progress):
        return (lambda done: progress(done, total)), lambda: None
    if not progress:
        return None, lambda: None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return (lambda done: _line(done, total)), lambda: sys.stderr.write("\n")
    bar = tqdm(total=total, unit="run")
    return (lambda done: bar.update(done - bar.n)), bar.close


def _line(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done} of {total} runs")
    sys.stderr.flush()
