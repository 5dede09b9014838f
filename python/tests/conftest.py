"""What all tests share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import matplotlib
import pytest

import bentpipe as bp

matplotlib.use("Agg")

ROOT = Path(__file__).resolve().parents[2]
TEXT = """
version = 1
nodes = ["client", "server"]
[[link]]
name = "sat"
between = ["client", "server"]
rate = "6Mbit/s"
delay = "20ms"
queue = "1BDP"
loss = 1e-3
[[flow]]
name = "file"
from = "client"
to = "server"
tcp = "cubic"
bulk = { size = "200kB" }
[record]
interval = "10ms"
queue_interval = "10ms"
"""


@pytest.fixture
def scenario() -> bp.Scenario:
    """200 kB over a short lossy link: a millisecond of work."""
    return bp.Scenario.from_toml(TEXT)


@pytest.fixture
def command() -> str:
    """The command, where it is built."""
    try:
        return bp.commands.program()
    except bp.MissingError as error:
        if os.environ.get("BENTPIPE_MUST_RUN"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def scenarios() -> Path:
    """The scenarios of the repository."""
    return ROOT / "scenarios"


def has(program: str) -> bool:
    """Whether a program is installed."""
    return shutil.which(program) is not None
