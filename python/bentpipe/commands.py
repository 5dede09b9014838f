"""What the command `bentpipe` does better: it enters namespaces of its own, which a process with threads cannot."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from bentpipe._bentpipe import CommandError, InputError, MissingError
from bentpipe.scenarios import Scenario, choose_variants

# The command's exit codes (bentpipe --help).
_FAILED, _WRONG_INPUT, _MISSING = 1, 2, 3


def tune(**options: Any) -> dict[str, Any]:
    """TCP settings for a link, and their gain: the document of `bentpipe tune --json`.

    Options are those of the command: `bp.tune(rate="6Mbit/s", rtt="550ms", size="1MB", verify=True)`.
    """
    return run("tune", *_options(options))


def papers(*names: str, **options: Any) -> dict[str, Any]:
    """Reproduces papers, number by number: the document of `bentpipe papers --json`.

    `bp.papers("marchese", item="table-3")` reproduces one table; `bp.papers(list=True)` lists all.
    """
    return run("papers", *names, *_options(options))


def lab(
    scenario: Scenario | str | os.PathLike[str], *, variants: Iterable[str] | None = None
) -> dict[str, Any]:
    """Runs a scenario with the kernel's TCP over the emulated link, in real time: the document of `bentpipe lab --json`.

    Linux only; it needs root, or unprivileged user namespaces. Raises `MissingError` where it cannot run.
    """
    if sys.platform != "linux":
        raise MissingError("the lab needs Linux: its links join network namespaces")
    scenario = Scenario.of(scenario)
    arguments = [argument for setting in scenario.overrides() for argument in ("--set", setting)]
    if variants is not None:
        variants = [variants] if isinstance(variants, str) else list(variants)
        arguments += ["--variants", ",".join(variants)]
    # Faults name the scenario, not the file that is made for the command.
    choose_variants(scenario.check(), variants)
    with _file_of(scenario) as path:
        return run("lab", _text(Path(path)), *arguments)


@contextmanager
def _file_of(scenario: Scenario) -> Iterator[str]:
    """The file that `scenario` was read from; if it has none or has changed, another one in the same folder for the time being."""
    if scenario._file is not None:
        try:
            is_same = Path(scenario._file).read_text(encoding="utf-8") == scenario.to_toml()
        except (OSError, UnicodeDecodeError):
            is_same = False
        if is_same:
            yield scenario._file
            return
    folder = scenario._folder or tempfile.gettempdir()
    try:
        file = tempfile.NamedTemporaryFile("w", suffix=".toml", dir=folder, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: the scenario cannot be written there for the command: {error.strerror}") from error
    with file:
        file.write(scenario.to_toml())
        file.flush()
        yield file.name


def program() -> str:
    """Where the command is: BENTPIPE's path, beside this Python, or in PATH."""
    named = os.environ.get("BENTPIPE")
    if named:
        return named
    beside = Path(sysconfig.get_path("scripts")) / "bentpipe"
    found = str(beside) if beside.exists() else shutil.which("bentpipe")
    if found is None:
        raise MissingError("the command bentpipe is missing: install the wheel, or set BENTPIPE to its path")
    return found


def run(*arguments: str) -> dict[str, Any]:
    """The JSON document that a command prints. Its failures are raised with its texts.

    Ctrl-C has the command end, which prints what it has finished: that is the `document` of the KeyboardInterrupt. A second one kills it.
    """
    # In UTF-8 whatever the locale, as the command reads and writes texts.
    command = [program(), *(argument.encode("utf-8", "surrogateescape") for argument in arguments), "--json"]
    try:
        # In a session of its own, so that the command gets an interrupt once, from wherever it comes. The price: it outlives a killed Python.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise MissingError(f"{program()}: {error.strerror}") from error
    with process:
        try:
            stdout, stderr = process.communicate()
        except KeyboardInterrupt as interrupt:
            interrupt.document = None  # type: ignore[attr-defined]
            interrupt.document = _interrupted(process)  # type: ignore[attr-defined]
            raise
        except BaseException:
            process.kill()
            raise
    if process.returncode == 0:
        _warn(stderr)
        try:
            return json.loads(stdout)
        except ValueError:
            raise CommandError(f"{program()} printed no JSON document: is it bentpipe? BENTPIPE names another") from None
    text = _problem(stderr) or _end(process.returncode)
    if process.returncode == _WRONG_INPUT:
        raise InputError(text)
    if process.returncode == _MISSING:
        raise MissingError(text)
    error = CommandError(text)
    error.document = _finished(stdout)
    raise error


def _warn(stderr: str) -> None:
    """Passes on what a command that succeeded warned of."""
    for line in stderr.splitlines():
        _, is_warning, text = line.partition(" WARN ")
        if is_warning:
            warnings.warn(text, RuntimeWarning, stacklevel=4)


def _interrupted(process: subprocess.Popen[str]) -> Any:
    """The document that a command prints that is interrupted; None if it prints none."""
    try:
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate()
    except BaseException as second:
        process.kill()
        second.document = None  # type: ignore[attr-defined]
        raise
    return _finished(stdout)


def _finished(text: str) -> Any:
    """The document that a command printed that failed; None if it printed none, or not all of it."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _end(code: int) -> str:
    """What ended a command that says nothing of it."""
    if code >= 0:
        return f"{program()} failed with exit code {code} and said nothing"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"{program()} was ended by {name}"


def _problem(stderr: str) -> str:
    """The text of the failure, which stands last on stderr."""
    for line in reversed(stderr.splitlines()):
        try:
            return str(json.loads(line)["error"])
        except (ValueError, KeyError, TypeError):
            continue
    return stderr.strip()


def _options(options: Mapping[str, Any]) -> list[str]:
    arguments = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments.append(f"{option}={_text(value)}")
    return arguments


def _text(value: Any) -> str:
    if isinstance(value, timedelta):
        return f"{round(value.total_seconds() * 1e6)}us"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    if isinstance(value, os.PathLike):
        # Encoded in UTF-8, it has the bytes that the file system has.
        return os.fsencode(value).decode("utf-8", "surrogateescape")
    return str(value)
