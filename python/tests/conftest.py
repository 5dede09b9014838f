"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib
import pytest

import bentpipe as bp
from made import ROOT, transfer

matplotlib.use("Agg")


@pytest.fixture
def scenario() -> bp.Scenario:
    """200 kB over a short lossy link: a millisecond of work."""
    return transfer(link__sat__loss=1e-3, record__interval="10ms", record__queue_interval="10ms")


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
