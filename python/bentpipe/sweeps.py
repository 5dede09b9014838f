"""Sweeps: a scenario with each combination of settings and each seed, on any executor."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from bentpipe import _bentpipe
from bentpipe._bentpipe import BentpipeError, Experiment, ScenarioError, Table
from bentpipe.scenarios import Scenario, choose_seeds, choose_variants, cut, document, fault, kept, plain
from bentpipe.simulation import Progress, choose_jobs, processors, raise_at_limits, reporter, run_name

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
"""Each key's values, of which all combinations are run; or the combinations themselves."""

# A chunk is to take so long: much longer than handing it to a worker, and short enough that a killed worker loses little.
_CHUNK_S = 0.5
_MOST_RUNS = 2_000
# How many chunks wait or run for each worker: enough that none idles, few enough that their results fit into memory.
_CHUNKS_EACH = 2
# Settings that results have columns for: a column of a sweep's settings cannot have their names.
_COLUMNS = ("name", "version")
# Looks at Ctrl-C while workers are busy.
_LOOK_S = 0.1


class WorkerLost(BentpipeError):
    """A worker died, and its executor with it. What was finished is kept: the same sweep goes on from there."""


class _Run(NamedTuple):
    point: int
    variant: int
    seed: int
    key: str

    @property
    def name(self) -> tuple[str, int]:
        """What its results are known by: runs of different points may have it in common, and are then made once."""
        return self.key, self.seed


class Sweep:
    """A sweep, made by `sweep`: its points, and the results of its runs that are finished."""

    def __init__(
        self,
        scenario: Scenario,
        points: list[dict[str, Any]],
        seeds: int | Iterable[int] | None,
        variants: Iterable[str] | None,
        out: str | os.PathLike[str] | None,
    ) -> None:
        self.points = points
        """The settings of each point of the grid."""
        self._scenarios = [scenario.with_settings(point) for point in points]
        # A process to which it passes may be in another directory.
        self._open(None if out is None else os.path.abspath(out), {})
        self._runs: list[_Run] = []
        self._variants: list[str] = []
        variants, seeds = kept(variants), kept(seeds)
        for number, point in enumerate(self._scenarios):
            experiment = point.check()
            keys = _bentpipe.sweep_keys(experiment)
            self._variants = experiment.variants
            chosen = choose_variants(experiment, variants)
            self._check(number, experiment, chosen)
            for variant in chosen:
                self._runs += [_Run(number, variant, seed, keys[variant]) for seed in choose_seeds(experiment, variant, seeds)]
        self._refuse_repetition()
        self._is_of_this_build = True

    def _check(self, point: int, experiment: Experiment, variants: list[int]) -> None:
        """Asks the simulator about each scenario before the first run: a sweep may take hours to come to one that it refuses."""
        try:
            _bentpipe.check(experiment, set(variants))
        except ScenarioError as error:
            raise fault(f"grid: {self._settings_text(point)}: {error}") from None

    def _refuse_repetition(self) -> None:
        """A point whose runs are all another's says nothing. Some variants may well not depend on a setting."""
        points: dict[int, set[tuple[str, int]]] = {}
        sharing: dict[tuple[str, int], list[int]] = {}
        for run in self._runs:
            points.setdefault(run.point, set()).add(run.name)
        for point, names in points.items():
            for name in names:
                sharing.setdefault(name, []).append(point)
        for point, names in points.items():
            # Another that has all of them has the one that the fewest have.
            fewest = min((sharing[name] for name in names), key=len)
            for other in fewest:
                if other != point and names <= points[other]:
                    one, another = self._settings_text(point), self._settings_text(other)
                    raise fault(f"grid: `{one}` and `{another}` are the same simulation, or `{one}` is a part of it: leave one out")

    def _open(self, out: str | None, shards: Mapping[str, bytes]) -> None:
        """Keeps results in the folder `out`. Without one of the user's, they live as long as the sweep, which begins with `shards`."""
        self._out = out
        self._folder = out if out is not None else tempfile.mkdtemp(prefix="bentpipe-")
        if out is None:
            weakref.finalize(self, _remove, self._folder, os.getpid())
        for name, shard in shards.items():
            Path(self._folder, name).write_bytes(shard)
        self._store = _bentpipe.Store(self._folder)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: what is in a folder of the user's stays there, other results go along."""
        state = {name: value for name, value in self.__dict__.items() if name not in ("_store", "_folder")}
        names = [] if self._out is not None else [name for name in os.listdir(self._folder) if name.endswith(".parquet")]
        return state | {"_shards": {name: Path(self._folder, name).read_bytes() for name in names}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        shards = state.pop("_shards")
        self.__dict__.update(state)
        # Its results can be read in any case, and where all are there, they are those of the build that made them.
        self._is_of_this_build = False
        self._open(self._out, shards)

    def __len__(self) -> int:
        """How many runs it has."""
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<bentpipe.Sweep, {len(self)} runs at {len(self.points)} points, {self.missing} missing>"

    @property
    def missing(self) -> int:
        """How many runs have no results yet."""
        return sum(not self._store.has(*run.name) for run in self._runs)

    def _missing(self) -> list[_Run]:
        """The runs that are to be made: what points have in common, once."""
        missing: dict[tuple[str, int], _Run] = {}
        for run in self._runs:
            if not self._store.has(*run.name):
                missing.setdefault(run.name, run)
        return list(missing.values())

    def _rename(self) -> None:
        """Names the runs as this build does, for a sweep that another may have begun: what that has made counts as missing."""
        keys = [_bentpipe.sweep_keys(scenario.check()) for scenario in self._scenarios]
        self._runs = [run._replace(key=keys[run.point][run.variant]) for run in self._runs]
        self._is_of_this_build = True

    @property
    def flows(self) -> Table:
        """A row for each flow of each finished run, in the order of the points, variants and seeds. `place` counts runs."""
        return self._store.rows([run.name for run in self._runs])

    def to_polars(self) -> Any:
        """`flows` as a `polars.DataFrame`, with a column for each setting of the grid before the others."""
        import polars

        frame = self.flows.to_polars()
        places = frame["place"].to_list()
        settings = [
            polars.Series(key, [self._setting(place, key) for place in places], strict=False)
            for key in dict.fromkeys(itertools.chain.from_iterable(self.points))
        ]
        return polars.DataFrame([*settings, *frame.drop("place").get_columns()])

    def to_pandas(self) -> Any:
        """`flows` as a `pandas.DataFrame`, with a column for each setting of the grid before the others."""
        frame = self.flows.to_pandas()
        places = frame.pop("place")
        for key in reversed(dict.fromkeys(itertools.chain.from_iterable(self.points))):
            frame.insert(0, key, [self._setting(place, key) for place in places])
        return frame

    def _setting(self, place: int, key: str) -> Any:
        value = plain(self.points[self._runs[place].point].get(key))
        return value if value is None or isinstance(value, (int, float, str, bool)) else str(value)

    def _raise_at_limits(self) -> None:
        flows = self.flows
        if not len(flows):
            return
        of_place = dict(zip(flows["place"].tolist(), flows["stopped"]))
        limits = {stopped for stopped in set(of_place.values()) if _bentpipe.at_limits([("", stopped)]) is not None}
        raise_at_limits([(self._title(place), stopped) for place, stopped in of_place.items() if stopped in limits], self)

    def _title(self, place: int) -> str:
        """What texts call a run: the settings of its point, its variant and its seed."""
        run = self._runs[place]
        name = run_name(self._variants[run.variant] if self._variants else None, run.seed)
        return ", ".join([self._settings_text(run.point), name])

    def _settings_text(self, point: int) -> str:
        of_scenario = self._scenarios[point].settings
        return " ".join(f"{key}={of_scenario[key]}" for key in self.points[point]) or "{}"

    def run(self, executor: Executor | None = None, *, jobs: int | None = None) -> Generator[int, None, None]:
        """Makes the runs that are missing, and gives, whenever some have ended, how many have."""
        if executor is None:
            with ThreadPoolExecutor(choose_jobs(jobs)) as threads:
                yield from self._run(threads, choose_jobs(jobs))
        else:
            yield from self._run(executor, _workers(executor) if jobs is None else choose_jobs(jobs))

    def _run(self, executor: Executor, workers: int) -> Generator[int, None, None]:
        if self.missing and not self._is_of_this_build:
            self._rename()
        # Chunks on threads of this process can be ended; those of other processes end by themselves.
        cancel = _bentpipe.Cancel() if isinstance(executor, ThreadPoolExecutor) else None
        chunks = _Chunks(self._missing())
        waiting: dict[Future[Any], list[_Run]] = {}
        copies = Counter(run.name for run in self._runs)
        ended = len(self._runs) - self.missing
        try:
            while chunks.left or waiting:
                while chunks.left and len(waiting) < workers * _CHUNKS_EACH:
                    runs = chunks.take(workers)
                    waiting[executor.submit(run_chunk, *self._chunk(runs), *([cancel] if cancel else []))] = runs
                done, _ = wait(waiting, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
                for future in done:
                    shard, names, seconds = future.result()
                    runs = waiting.pop(future)
                    chunks.took(len(runs), seconds)
                    self._take(runs, names, shard)
                    ended += sum(copies[name] for name in map(tuple, names))
                    yield ended
        except BrokenExecutor as error:
            self._keep(waiting)
            raise WorkerLost(
                f"a worker died: {self.missing} of {len(self)} runs are missing; run the sweep again to make them"
            ) from error
        finally:
            for future in waiting:
                future.cancel()
            if cancel is not None:
                cancel.set()

    def _keep(self, waiting: Mapping[Future[Any], list[_Run]]) -> None:
        """Keeps what had ended before the executor broke, but nothing of other builds."""
        for future, runs in waiting.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                shard, names, _ = future.result()
                if _are_of(names, runs):
                    self._store.put(names, shard)

    def _take(self, runs: list[_Run], names: list[tuple[str, int]], shard: bytes) -> None:
        """Keeps what a worker found of `runs`."""
        if not _are_of(names, runs):
            raise BentpipeError(
                "a worker has another build of bentpipe, whose results may differ: install the same build for all workers"
            )
        self._store.put(names, shard)

    def _chunk(self, runs: list[_Run]) -> tuple[Any, ...]:
        """What a worker needs for `runs`: texts and numbers, which go to other processes and machines."""
        points = sorted({run.point for run in runs})
        number = {point: at for at, point in enumerate(points)}
        scenarios = [self._scenarios[point] for point in points]
        first = scenarios[0]
        return (
            first.to_toml(),
            first._name,
            first._folder,
            [scenario.overrides() for scenario in scenarios],
            [(number[run.point], run.variant, run.seed) for run in runs],
        )


def _are_of(names: Iterable[tuple[str, int]], runs: Iterable[_Run]) -> bool:
    """Whether all `names` are those of `runs`: a worker with another build of bentpipe has others."""
    return {run.name for run in runs}.issuperset(map(tuple, names))


def _remove(folder: str, owner: int) -> None:
    """Removes `folder` where the process `owner` ends; one that was forked from it leaves it alone."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


class _Chunks:
    """Runs in chunks of a length that suits how long runs have taken."""

    def __init__(self, runs: list[_Run]) -> None:
        self._runs = runs
        self._next = 0
        self._made = 0
        self._seconds = 0.0

    @property
    def left(self) -> int:
        return len(self._runs) - self._next

    def take(self, workers: int) -> list[_Run]:
        """The next chunk. The first are short, since nobody knows how long a run takes; the last are shared by the workers."""
        size = 1
        if self._made:
            size = int(_CHUNK_S * self._made / max(self._seconds, 1e-9))
            size = max(1, min(size, _MOST_RUNS, -(-self.left // workers)))
        begin, self._next = self._next, min(self._next + size, len(self._runs))
        return self._runs[begin : self._next]

    def took(self, runs: int, seconds: float) -> None:
        self._made += runs
        self._seconds += seconds


def run_chunk(
    text: str,
    name: str,
    folder: str | None,
    settings: list[list[str]],
    runs: list[tuple[int, int, int]],
    cancel: _bentpipe.Cancel | None = None,
) -> tuple[bytes, list[tuple[str, int]], float]:
    """What a worker does: the runs of a chunk, as a shard with their names, and the seconds that it took."""
    experiments = [_bentpipe.Experiment(text, name, overrides, folder) for overrides in settings]
    return _bentpipe.sweep_chunk(experiments, runs, cancel)


def sweep(
    scenario: Scenario | str | os.PathLike[str],
    grid: Grid,
    *,
    seeds: int | Iterable[int] | None = None,
    variants: Iterable[str] | None = None,
    executor: Executor | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = False,
) -> Sweep:
    """Runs `scenario` with each combination of the values in `grid`, each variant and each seed.

    `bp.sweep(scenario, {"link.sat.loss": [1e-4, 1e-3], "flow.file.tcp": ["cubic", "bbr"]}, seeds=20).to_polars()`

    `executor` is any executor of `concurrent.futures`, threads by default: `Client.get_executor()` of Dask, `MPIPoolExecutor` of
    mpi4py, `bentpipe.ray.RayExecutor`. `jobs` is the number of its workers, if it does not tell.

    Results are kept in the folder `out` as Parquet shards, which appear when they are complete. The same sweep, or another that
    shares runs with it, makes only the runs that are missing there. Raises `WorkerLost` if a worker's death broke the executor, and
    `LimitError` if runs stopped at a limit of the scenario: its `result` is the sweep, whose rows of such runs `stopped` marks. A worker
    with another build of bentpipe raises `BentpipeError`.
    """
    # Limits are found with it in the end: if it cannot be imported, no run is made for nothing.
    import numpy  # noqa: F401

    points = grid_points(grid)
    made = Sweep(Scenario.of(scenario), points, seeds, variants, out)
    report, close = reporter(progress, len(made))
    try:
        with closing(made.run(executor, jobs=jobs)) as progressing:
            for ended in progressing:
                if report is not None:
                    report(ended)
    finally:
        close()
    made._raise_at_limits()
    return made


def grid_points(grid: Grid) -> list[dict[str, Any]]:
    """The settings of each point."""
    points = _combined(grid) if isinstance(grid, Mapping) else _listed(grid)
    for key in itertools.chain.from_iterable(points):
        if key in _COLUMNS:
            raise fault(f"grid: {key}: the results have a column of this name: leave it out")
    return points


def _combined(grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points of a grid that lists the values of each key."""
    for key, values in grid.items():
        if not _is_list(values):
            raise fault(f"grid: {key} = {cut(repr(values))}: expected a list of values")
    grid = {key: list(values) for key, values in grid.items()}
    for key, values in grid.items():
        if not values:
            raise fault(f"grid: {key} = []: expected at least one value")
        twice = _repeated(values, [_hashable(document(value, key)) for value in values])
        if twice is not None:
            raise fault(f"grid: {key}: {cut(repr(twice))} stands there twice, and its runs would count twice")
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def _listed(grid: Any) -> list[dict[str, Any]]:
    """The points of a grid that lists them."""
    if not _is_list(grid):
        raise fault(f"grid = {cut(repr(grid))}: expected a dict with a list of values for each key, or a list of dicts")
    grid = list(grid)
    for number, point in enumerate(grid):
        if not isinstance(point, Mapping):
            raise fault(f"grid: point {number} is {cut(repr(point))}: expected a dict of settings")
    if not grid:
        raise fault("grid = []: expected at least one point")
    points = [dict(point) for point in grid]
    twice = _repeated(points, [_hashable({key: document(value, key) for key, value in point.items()}) for point in points])
    if twice is not None:
        raise fault(f"grid: {cut(repr(twice))} stands there twice, and its runs would count twice")
    return points


def _is_list(values: Any) -> bool:
    """Whether it can be gone through value by value; an array of NumPy without dimensions only looks so."""
    return isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping)) and getattr(values, "ndim", 1) > 0


def _repeated(values: list[Any], same: list[Any]) -> Any:
    """The first of `values` of which an earlier one is the same, by what stands for each; None if there is none."""
    seen: set[Any] = set()
    for value, key in zip(values, same):
        if key in seen:
            return value
        seen.add(key)
    return None


def _hashable(value: Any) -> Any:
    """What is equal to that of another setting if the two are equal."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _workers(executor: Executor) -> int:
    """How many workers an executor has, as far as it tells."""
    for name in ("_max_workers", "num_workers", "workers"):
        number = getattr(executor, name, None)
        if isinstance(number, int) and number > 0:
            return number
    client = getattr(executor, "_client", None)
    threads = getattr(client, "nthreads", None)
    return sum(threads().values()) if callable(threads) else processors()
