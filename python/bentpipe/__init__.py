"""TCP over satellite links: simulate, sweep, predict and plot.

    import bentpipe as bp

    scenario = bp.Scenario.from_file("geo-bulk.toml")
    result = bp.simulate(scenario, seeds=20)
    result.flows.to_polars()

`bentpipe.model` has closed-form models over NumPy arrays, `bentpipe.plots` draws on matplotlib axes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bentpipe._bentpipe import (
    BentpipeError,
    CommandError,
    InputError,
    LimitError,
    MissingError,
    QuantityError,
    ResultsError,
    ScenarioError,
    Table,
    __version__,
)
from bentpipe.commands import lab, papers, tune
from bentpipe.congestion import CongestionControl
from bentpipe.scenarios import Scenario
from bentpipe.simulation import Result, simulate
from bentpipe.sweeps import Sweep, WorkerLost, sweep

__all__ = [
    "BentpipeError",
    "CommandError",
    "CongestionControl",
    "InputError",
    "LimitError",
    "MissingError",
    "QuantityError",
    "Result",
    "ResultsError",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "Table",
    "WorkerLost",
    "__version__",
    "lab",
    "model",
    "papers",
    "simulate",
    "sweep",
    "tune",
]

# They need NumPy, matplotlib, Gymnasium and Ray, which take longer to import than all of the rest. Of those, only NumPy is always installed:
# the others are not among the names that `from bentpipe import *` imports.
_LAZY = {"gym": "bentpipe.gym", "model": "bentpipe.model", "plots": "bentpipe.plots", "ray": "bentpipe.ray"}

if TYPE_CHECKING:
    from bentpipe import gym as gym, model as model, plots as plots, ray as ray
else:
    # A type checker that sees it takes any name for one of the module.
    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            try:
                return importlib.import_module(_LAZY[name])
            except ModuleNotFoundError as error:
                missing = (error.name or __name__).partition(".")[0]
                if missing == __name__:
                    raise
                # So that hasattr() says what there is.
                raise AttributeError(f"bentpipe.{name} needs {missing}, which is not installed") from error
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
