"""Plots: what is on the axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import bentpipe as bp


@pytest.fixture
def ax():
    with plt.rc_context(bp.plots.style()):
        figure, ax = plt.subplots()
        yield ax
        plt.close(figure)


@pytest.fixture
def result(scenarios):
    scenario = bp.Scenario.from_file(scenarios / "geo-bulk.toml").with_settings({"flow.file.bulk.size": "500kB"})
    return bp.simulate(scenario, seeds=2, variants=["cubic", "bbr"])


def test_a_curve_for_each_variant_in_a_colour_and_a_dash_of_its_own(result, ax):
    assert bp.plots.cwnd(result, ax) is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["cubic", "bbr"]
    named = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
    assert len({line.get_color() for line in named}) == len({line.get_linestyle() for line in named}) == 2
    cubic = result.trace("cwnd").to_polars().filter(run=0)
    assert named[0].get_ydata().tolist() == (cubic["cwnd_bytes"] / 1e3).to_list()


@pytest.mark.parametrize("name, top", [("time_sequence", 0.5), ("throughput", None), ("rtt", None), ("queue", None)])
def test_traces_have_units_and_end_where_the_run_ends(result, ax, name, top):
    getattr(bp.plots, name)(result, ax=ax)
    highest = max(line.get_ydata()[np.isfinite(line.get_ydata())].max() for line in ax.get_lines())
    assert highest > 0 and (top is None or highest <= top)
    assert ax.get_xlabel() == "time, s" and ", " in ax.get_ylabel()


def test_bands_hold_the_true_mean_as_often_as_they_say():
    random = np.random.default_rng(1)
    found = [bp.plots.interval(random.normal(3.0, 1.0, 5)) for _ in range(2000)]
    held = np.mean([abs(mean - 3.0) <= half for mean, half in found])
    assert 0.93 < held < 0.97
    assert np.isnan(bp.plots.interval([1.0])[1])


def test_band_cdf_box_and_fairness(result, ax):
    bp.plots.band([1e-4, 1e-3], {"cubic": [[1, 2], [3, 5]], "bbr": [[2, 2], [4, 4]]}, ax)
    assert ax.get_lines()[0].get_ydata().tolist() == [1.5, 4.0] and ax.get_xscale() == "log"
    with pytest.raises(bp.QuantityError, match="has 1 entries: expected 2"):
        bp.plots.band([1e-4, 1e-3], {"cubic": [[1, 2]]}, ax)
    ax.clear()
    bp.plots.cdf({"a": [3, 1, 2]}, ax)
    assert ax.get_lines()[0].get_xdata().tolist() == [1, 2, 3] and ax.get_lines()[0].get_ydata()[-1] == 1
    ax.clear()
    bp.plots.box({"a": [1, 2, 3], "b": [2, 3]}, ax)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b"]
    ax.clear()
    bp.plots.fairness(result, ax)
    assert [bar.get_height() for bar in ax.patches] == [pytest.approx(1.0)] * 2


def test_what_is_no_number_is_left_out_and_nothing_else_is_refused(ax):
    bp.plots.cdf({"a": [3, None, 1, float("nan")]}, ax)
    (line,) = ax.get_lines()
    assert line.get_xdata().tolist() == [1, 3] and line.get_ydata().tolist() == [0.5, 1]
    ax.clear()
    bp.plots.box({"a": [1, 2, float("nan")]}, ax)
    assert any(np.all(line.get_ydata() == 1.5) for line in ax.get_lines()), "the median"
    for plot in (bp.plots.box, bp.plots.cdf):
        for values in ([], [None, float("nan")]):
            with pytest.raises(bp.QuantityError, match="samples\\['a'\\] has no finite value"):
                plot({"a": values}, ax)


FAIR = """
version = 1
nodes = ["a", "b"]
stop = { time = "10s", complete = false }
[[link]]
name = "l"
between = ["a", "b"]
delay = "20ms"
rate = "6Mbit/s"
queue = "1BDP"
[[flow]]
name = "file"
from = "a"
to = "b"
count = 2
tcp = "cubic"
bulk = {}
[[flow]]
name = "probe"
from = "a"
to = "b"
ping = {}
"""


def test_fairness_is_that_of_flows_that_compete(ax):
    result = bp.simulate(bp.Scenario.from_toml(FAIR), seeds=1)
    goodputs = result.flows["goodput_bps"]

    def jain(values):
        return pytest.approx(values.sum() ** 2 / (len(values) * (values**2).sum()))

    bp.plots.fairness(result, ax)
    assert [bar.get_height() for bar in ax.patches] == [jain(goodputs[:2])], "a ping competes with nobody"
    ax.clear()
    apart = bp.simulate(bp.Scenario.from_toml(FAIR.replace("count = 2\n", "")), seeds=1)
    bp.plots.fairness(apart, ax)
    assert [bar.get_height() for bar in ax.patches] == [pytest.approx(1.0)], "one transfer, and a ping"
    ax.clear()
    bp.plots.fairness(result, ax, flows=["file-1", "probe"])
    assert [bar.get_height() for bar in ax.patches] == [jain(goodputs[[0, 2]])]
    with pytest.raises(bp.QuantityError, match="there is no flow and no group 'files'; there are file, file-1, file-2, probe"):
        bp.plots.fairness(result, ax, flows=["files"])


def test_flows_that_had_no_time_are_none_of_those_that_are_unequal(ax):
    text = FAIR.replace("count = 2\n", 'count = 4\nstart = { every = "6s" }\n')
    result = bp.simulate(bp.Scenario.from_toml(text), seeds=1)
    goodputs = result.flows["goodput_bps"][:4]
    assert np.isfinite(goodputs).tolist() == [True, True, False, False]
    bp.plots.fairness(result, ax)
    two = goodputs[:2]
    assert [bar.get_height() for bar in ax.patches] == [pytest.approx(two.sum() ** 2 / (2 * (two**2).sum()))]


def test_dama_shows_what_a_terminal_asked_for_was_given_and_used(scenarios, ax):
    result = bp.simulate(scenarios / "dama.toml", seeds=1)
    bp.plots.dama(result, ax)
    assert [line.get_label() for line in ax.get_lines()] == ["requested", "allocated", "used"]
    times, used = result.capacity["time_s"], result.capacity["used_bps"]
    times, used = (column[result.capacity["direction"] == result.capacity["direction"][0]] for column in (times, used))
    for line in ax.get_lines():
        # A superframe's value is drawn from its beginning to that of the next.
        assert line.get_drawstyle() == "steps-post" and line.get_xdata()[:-1].tolist() == times.tolist()
        assert line.get_xdata()[-1] == pytest.approx(2 * times[-1] - times[-2])
    assert ax.get_lines()[2].get_ydata()[:-1].tolist() == (used / 1e6).tolist()


def test_a_paper_s_item_has_what_is_simulated_modelled_and_printed(command, ax):
    document = bp.papers("marchese", item=["table-3", "figure-3"])
    assert bp.plots.paper(document, "table-3", ax, xlabel="initial window") is ax
    entries = document["papers"][0]["items"][0]["entries"]
    simulated, model, printed = ax.get_lines()
    assert simulated.get_xdata().tolist() == [1, 2, 4, 6, 8, 10] and ax.get_xscale() == "linear"
    assert simulated.get_ydata().tolist() == [entry["simulated"] for entry in entries]
    assert printed.get_ydata().tolist() == [4.42, 3.76, 3.21, 2.7, 2.66, 2.62] and model.get_ydata()[0] == entries[0]["model"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("initial window", "s")
    for item, told in (("table-9", "there is no item table-9: there are table-3"), ("figure-3", "no entries with a number")):
        with pytest.raises(bp.QuantityError, match=told):
            bp.plots.paper(document, item, ax)
    with pytest.raises(bp.QuantityError, match="has no curve satpep"):
        bp.plots.paper(document, "table-3", ax, curves=["satpep"])


def test_what_was_not_recorded_is_told(scenario, ax):
    result = bp.simulate(scenario, record=False)
    with pytest.raises(bp.QuantityError, match="set record.interval"):
        bp.plots.cwnd(result, ax)
    with pytest.raises(bp.QuantityError, match="set record.capacity"):
        bp.plots.dama(result, ax)
    with pytest.raises(bp.QuantityError, match="set record.queue_interval"):
        bp.plots.queue(result, ax)


@pytest.mark.parametrize("name", ["cwnd", "time_sequence", "throughput", "rtt", "queue"])
def test_a_seed_that_no_run_has_is_named_with_those_there_are(result, ax, name):
    with pytest.raises(bp.QuantityError, match="seed = 7: no run has it; there are 1, 2"):
        getattr(bp.plots, name)(result, ax, seed=7)


def test_a_queue_is_a_delay_at_a_rate(result, ax):
    bp.plots.queue(result, ax, rate_bps=8e6)
    at_rate = ax.get_lines()[0].get_ydata()
    ax.clear()
    bp.plots.queue(result, ax)
    assert at_rate.tolist() == pytest.approx(ax.get_lines()[0].get_ydata().tolist())


def test_dama_finds_the_run_that_has_capacity_and_names_what_is_not_there(scenarios, ax):
    scenario = bp.Scenario.from_file(scenarios / "dama.toml")
    text = scenario.to_toml() + '\n[variants.unrecorded]\n"record.capacity" = false\n[variants.recorded]\n'
    result = bp.simulate(bp.Scenario.from_toml(text, folder=scenarios), seeds=1, variants=["unrecorded", "recorded"])
    bp.plots.dama(result, ax)
    assert result.capacity["run"].min() == 1 and len(ax.get_lines()) == 3
    with pytest.raises(bp.QuantityError, match="seed = 7: no run has it; there are 1"):
        bp.plots.dama(result, ax, seed=7)
    with pytest.raises(bp.QuantityError, match=r"direction = 99: no capacity was recorded for it; there is capacity for \d"):
        bp.plots.dama(result, ax, direction=99)


def test_a_paper_s_entries_may_all_be_at_zero(ax):
    entry = {"key": "loss=0", "interval": None, "corrected": None, "printed": 1.0, "model": 1.0, "simulated": 1.0}
    document = {"papers": [{"items": [{"item": "table-1", "unit": "s", "entries": [entry]}]}]}
    bp.plots.paper(document, "table-1", ax)
    assert ax.get_xscale() == "linear"
    with pytest.raises(bp.QuantityError, match="x is empty"):
        bp.plots.band([], {"cubic": []}, ax)


def test_fonts_are_embedded_in_a_pdf(result, tmp_path):
    with plt.rc_context(bp.plots.style()):
        figure, ax = plt.subplots()
        bp.plots.cwnd(result, ax)
        figure.savefig(tmp_path / "cwnd.pdf")
        plt.close(figure)
    assert b"/FontFile2" in (tmp_path / "cwnd.pdf").read_bytes()
