"""Scenarios: what is simulated."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from bentpipe._bentpipe import Experiment, ScenarioError, settings as written_settings, to_toml


# More than anyone waits for, as for the command.
_MOST_SEEDS = 1_000_000


class Scenario:
    """A scenario file (docs/scenarios.md), or the same built in Python.

    Quantities are texts with units, as in the file; times may be `timedelta`. Settings are changed by their key, as with
    `--set` of the command line: `scenario["link.sat.loss"] = 1e-3`, and read by it. A run takes a snapshot: what is changed later does not
    change it.

    >>> scenario = Scenario(
    ...     nodes=["client", "server"],
    ...     link=[{"name": "sat", "between": ["client", "server"], "rate": "6Mbit/s", "delay": timedelta(seconds=0.275), "queue": "1BDP"}],
    ...     flow=[{"name": "file", "from": "client", "to": "server", "tcp": "cubic", "bulk": {"size": "1MB"}}],
    ... )
    >>> scenario.check().variants
    []
    """

    def __init__(self, **sections: Any) -> None:
        self._name = "scenario"
        self._text = to_toml(json.dumps(document({"version": 1, **sections}, "scenario")))
        self._folder: str | None = None
        self._file: str | None = None
        self._settings: dict[str, str] = {}

    @classmethod
    def from_toml(cls, text: str, *, name: str = "scenario", folder: str | os.PathLike[str] | None = None) -> Scenario:
        """A scenario from the text of a file. `name` is what faults call it; files that it names lie in `folder`."""
        scenario = cls.__new__(cls)
        scenario._name, scenario._text, scenario._settings = name, text, {}
        # A process that runs it, or this one by then, may be in another directory.
        scenario._folder = None if folder is None else os.path.abspath(folder)
        scenario._file = None
        scenario.check()
        return scenario

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Scenario:
        """A scenario from a TOML file."""
        path = Path(path)
        # Bytes of the name that are no text are U+FFFD, as with the command.
        name = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise fault(f"{name}: {getattr(error, 'strerror', None) or error}") from error
        scenario = cls.from_toml(text, name=name, folder=path.parent)
        scenario._file = os.path.abspath(path)
        return scenario

    @classmethod
    def of(cls, scenario: Scenario | str | os.PathLike[str]) -> Scenario:
        """`scenario` itself, or that of the file that it names."""
        return scenario if isinstance(scenario, Scenario) else cls.from_file(scenario)

    def __getitem__(self, key: str) -> Any:
        """The setting as it is written; KeyError if it is not set, whatever its default."""
        value = json.loads(written_settings(self._text, self._name, self.overrides()))
        for part in key.split("."):
            value = _part(value, part)
            if value is None:
                raise KeyError(f"{key} is not set")
        return value

    def __contains__(self, key: object) -> bool:
        """Whether the setting is written; it may have a default if it is not."""
        try:
            self[key]  # type: ignore[index]
        except (AttributeError, KeyError):
            return False
        return True

    # Without this, Python would try the keys 0, 1, 2 and so on.
    __iter__ = None

    def __eq__(self, other: object) -> bool:
        """Whether both have the same text, the same changes, and look for files in the same folder."""
        if not isinstance(other, Scenario):
            return NotImplemented
        return (self._text, self._settings, self._folder) == (other._text, other._settings, other._folder)

    # What may change has no hash.
    __hash__ = None  # type: ignore[assignment]

    def __setitem__(self, key: str, value: Any) -> None:
        value = _value(value, key)
        # The latest one counts, also beside others that lead to the same setting.
        self._settings.pop(key, None)
        self._settings[key] = value

    def __copy__(self) -> Scenario:
        return self.with_settings({})

    def with_settings(self, settings: Mapping[str, Any]) -> Scenario:
        """A copy with other settings."""
        copy = self.__class__.__new__(self.__class__)
        copy.__dict__.update(self.__dict__, _settings=dict(self._settings))
        for key, value in settings.items():
            copy[key] = value
        return copy

    @property
    def settings(self) -> dict[str, str]:
        """What replaces settings of the text: keys, and values as in TOML."""
        return dict(self._settings)

    def to_toml(self) -> str:
        """The text, without the changed `settings`."""
        return self._text

    def overrides(self) -> list[str]:
        """The changed settings as the command line takes them."""
        return [f"{key}={value}" for key, value in self._settings.items()]

    def check(self) -> Experiment:
        """Reads and checks the scenario as it is now. Raises `ScenarioError` with every fault."""
        return Experiment(self._text, self._name, self.overrides(), self._folder)

    def __repr__(self) -> str:
        settings = "".join(f", {setting}" for setting in self.overrides())
        return f"<bentpipe.Scenario {self._name}{settings}>"


def fault(text: str) -> ScenarioError:
    """A `ScenarioError` whose only fault is `text`."""
    error = ScenarioError(text)
    error.faults = [text]
    return error


def kept(values: Any) -> Any:
    """`values`, as a list if they could be gone through only once."""
    return list(values) if isinstance(values, Iterator) else values


def choose_variants(experiment: Experiment, wanted: Iterable[str] | None) -> list[int]:
    """The numbers of the variants in `wanted`, in the order of the scenario; of all if nothing is wanted."""
    names = experiment.variants
    if wanted is None:
        return list(range(max(1, len(names))))
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    known = ", ".join(names) if names else "it has none"
    if not wanted:
        raise fault(f"variants = []: expected names of variants ({known}), or None for all")
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise fault(f"variants: the scenario has no variant {unknown[0]} ({known})")
    return [number for number, name in enumerate(names) if name in wanted]


def choose_seeds(experiment: Experiment, variant: int, wanted: int | Iterable[int] | None) -> list[int]:
    """The seeds of a variant: so many from its first on, those of `wanted`, or those that it asks for."""
    first, last = experiment.seeds[variant]
    if wanted is None:
        seeds = list(range(first, last + 1))
    elif (count := whole(wanted)) is not None:
        seeds = list(range(first, first + count)) if count <= _MOST_SEEDS else []
    else:
        seeds = [] if isinstance(wanted, (str, bytes)) or not isinstance(wanted, Iterable) else [whole(seed) for seed in wanted]
    if not seeds or any(seed is None or not 0 <= seed < 1 << 64 for seed in seeds):
        raise fault(
            f"seeds = {cut(repr(wanted))}: expected a count of 1 or more, at most {_MOST_SEEDS}, or a list of whole numbers from 0 to 2^64 - 1"
        )
    if len(set(seeds)) < len(seeds):
        twice = next(seed for at, seed in enumerate(seeds) if seed in seeds[:at])
        raise fault(f"seeds = {cut(repr(wanted))}: {twice} stands there twice, and its runs would count twice")
    return seeds


def whole(value: Any) -> int | None:
    """`value` as a whole number, if it is one, of Python or of NumPy."""
    if isinstance(value, bool) or getattr(value, "ndim", 0):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def plain(value: Any) -> Any:
    """A scalar or an array of NumPy as Python has it; anything else as it is."""
    convert = getattr(value, "tolist", None)
    return convert() if callable(convert) else value


def cut(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"


def _part(value: Any, key: str) -> Any:
    """What `key` names in a table, or the item of that name or number in a list; None if there is nothing."""
    if isinstance(value, dict):
        return value.get(key)
    if not isinstance(value, list):
        return None
    named = (item for item in value if isinstance(item, dict) and item.get("name") == key)
    return next(named, value[int(key)] if key.isdecimal() and int(key) < len(value) else None)


def document(value: Any, place: str) -> Any:
    """`value` as JSON has it."""
    if isinstance(value, timedelta):
        return _time(value)
    if isinstance(value, Mapping):
        return {str(key): document(item, f"{place}.{key}") for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [document(item, place) for item in value]
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        return _number(value, place)
    if getattr(getattr(value, "dtype", None), "kind", None) == "m" and not value.ndim:
        return f"{int(value.astype('timedelta64[ns]').astype(int))}ns"
    of_python = plain(value)
    if type(of_python) is not type(value):
        return document(of_python, place)
    kind = type(value).__name__
    raise fault(f"{place}: a {kind} is no setting; expected a text, a number, a timedelta, a list or a dict")


def _number(value: float, place: str) -> float:
    """`value`, if TOML has it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise fault(f"{place} = {value}: expected a number")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise fault(f"{place} = {cut(str(value))}: expected a number from -2^63 to 2^63 - 1")
    return value


def _value(value: Any, key: str) -> str:
    """`value` as the command line takes it: TOML, or a bare text."""
    value = document(value, key)
    return value if isinstance(value, str) else _inline(value)


def _inline(value: Any) -> str:
    """`value` in one line of TOML. JSON's texts, numbers and lists are TOML's."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key, ensure_ascii=False)} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _time(value: timedelta) -> str:
    microseconds = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    return f"{microseconds}us"
