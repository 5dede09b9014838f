"""What tests, cluster tests and benchmarks run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import bentpipe as bp

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
[[flow]]
name = "file"
from = "client"
to = "server"
tcp = "cubic"
bulk = { size = "200kB" }
"""


def transfer(size: str = "200kB", delay: str = "20ms", **settings: object) -> bp.Scenario:
    """A file across a link of 6 Mbit/s. Settings have `__` for a dot: `link__sat__loss=1e-3`."""
    wanted = {"flow.file.bulk.size": size, "link.sat.delay": delay} | {key.replace("__", "."): value for key, value in settings.items()}
    return bp.Scenario.from_toml(TEXT).with_settings(wanted)


def ticks_of_another_thread(does: Callable[[], object]) -> int:
    """How often another thread of Python, which wants to each 5 ms, gets to run while `does` does."""
    ticks, over = [], threading.Event()

    def tick() -> None:
        while not over.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        does()
    finally:
        over.set()
        thread.join()
    return len(ticks)
