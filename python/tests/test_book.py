"""Every sample of the book's page and of the package's README runs, in the order of the page."""

import doctest
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import bentpipe as bp

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/python.md", "python/README.md")


def samples():
    for page in PAGES:
        for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)):
            yield pytest.param(code, id=f"{page}-{number + 1}")


@pytest.mark.parametrize("code", list(samples()))
def test_the_sample_runs(code, tmp_path, monkeypatch):
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "sample", "exec"), {})
    plt.close("all")


@pytest.mark.parametrize("module", [bp.scenarios, bp.model], ids=lambda module: module.__name__)
def test_examples_of_docstrings_hold(module):
    tried = doctest.testmod(module, extraglobs={"timedelta": __import__("datetime").timedelta})
    assert tried.attempted > 0 and tried.failed == 0


def test_the_page_names_what_there_is():
    page = (ROOT / "docs/python.md").read_text()
    for name in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page.split("## Plots")[1].split("## Notebooks")[0], re.M):
        for function in re.findall(r"`(\w+)`", name):
            assert callable(getattr(bp.plots, function)), function
    for error in re.findall(r"`(\w+)`", page.split("## Errors")[1]):
        assert error in ("faults", "result", "KeyError") or issubclass(getattr(bp, error), bp.BentpipeError), error
