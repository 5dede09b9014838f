//! Variants side by side, over all their runs: the mean of their traces with its confidence, distributions and boxes.

use crate::chart::{self, Axis, Chart, Series, Style};
use crate::error::Error;
use crate::estimate::Estimate;
use crate::run::Run;
use sim::FlowSample;
use std::collections::{BTreeMap, BTreeSet};

/// Runs of a variant whose samples are kept.
const RUNS: usize = 200;
/// The kind of picture that shows values without their times.
const DISTRIBUTIONS: &str = "distributions";
/// What fits the width of a picture as names of boxes, in letters.
const LETTERS: usize = 84;
/// More than these cannot be told apart.
const MAX_NAMES: usize = 21;

/// Values of a part.
type Values = fn(&Part) -> &Vec<f64>;

/// Collects the runs of a scenario.
#[derive(Debug, Default)]
pub struct Comparison {
    parts: Vec<Part>,
}

/// The flows of one name in all runs of a variant.
#[derive(Debug, Default)]
struct Part {
    name: String,
    runs: usize,
    /// Of all flows together, in Mbit/s, by time in nanoseconds: a value for each run.
    goodput: BTreeMap<u64, Vec<f64>>,
    /// The mean of the flows' smoothed round-trip times in milliseconds.
    rtt: BTreeMap<u64, Vec<f64>>,
    /// Of each flow of each run.
    goodputs: Vec<f64>,
    times: Vec<f64>,
    /// All samples.
    rtts: Vec<f64>,
}

impl Comparison {
    /// Takes a run with its samples, unless it stopped at a limit: what it found says more of the limit than of the variant.
    pub fn take(&mut self, run: &Run) {
        if run.report.stopped.limit().is_some() {
            return;
        }
        let groups: BTreeSet<&String> = run.groups.iter().collect();
        let instants = common_instants(&run.flow_samples);
        for group in &groups {
            let name = match &run.label.variant {
                Some(variant) if groups.len() == 1 => variant.to_string(),
                Some(variant) => format!("{variant}, {group}"),
                None => (*group).clone(),
            };
            let at = self.parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
                self.parts.push(Part { name, ..Part::default() });
                self.parts.len() - 1
            });
            self.parts[at].take(run, group, &instants);
        }
    }

    /// The pictures by name, as SVG: `means` over time and `distributions`; none if there is nothing to compare. Each may fail to be
    /// drawn.
    pub fn pictures(&self) -> Vec<(&'static str, Result<String, Error>)> {
        let is_one = self.parts.iter().all(|part| part.runs < 2) && self.parts.len() < 2;
        if is_one || self.parts.len() > MAX_NAMES {
            return Vec::new();
        }
        let kinds = [("means", "means over time", self.means()), (DISTRIBUTIONS, DISTRIBUTIONS, self.spreads())];
        let drawn = kinds.into_iter().filter(|(.., charts)| !charts.is_empty());
        drawn.map(|(name, title, charts)| (name, chart::stacked(&self.title(title), &charts))).collect()
    }

    /// The title of the pictures of kind `of`, with the number of runs. Over time, and of round-trip times, there are the samples of
    /// [`RUNS`] at most.
    fn title(&self, of: &str) -> String {
        match self.parts.iter().map(|part| part.runs).max() {
            Some(runs) if runs > RUNS && of == DISTRIBUTIONS => format!("{of}, {runs} seeds; RTT of {RUNS}"),
            Some(runs) if runs > RUNS => format!("{of}, {RUNS} of {runs} seeds"),
            Some(runs) if runs > 1 => format!("{of}, {runs} seeds"),
            _ => of.to_owned(),
        }
    }

    fn means(&self) -> Vec<Chart> {
        let over_time = |label: &str, values: fn(&Part) -> &BTreeMap<u64, Vec<f64>>| {
            let series: Vec<_> = self.parts.iter().filter_map(|part| mean(&part.name, values(part))).collect();
            let caption = if series.iter().any(|series| series.band.is_some()) {
                "Bands: 95 % confidence of the mean (Student's t). A curve ends when half of its runs have ended."
            } else {
                ""
            };
            let (x, y) = (Axis::linear("time, s"), Axis::linear(label));
            (!series.is_empty()).then(|| Chart { title: String::new(), x, y, series, caption: caption.into() })
        };
        let panels =
            [over_time("goodput, Mbit/s", |part| &part.goodput), over_time("smoothed RTT, ms", |part| &part.rtt)];
        panels.into_iter().flatten().collect()
    }

    fn spreads(&self) -> Vec<Chart> {
        let kinds: [(&str, Values); 3] = [
            ("goodput of a flow, Mbit/s", |part| &part.goodputs),
            ("time of a transfer, s", |part| &part.times),
            ("smoothed RTT, ms", |part| &part.rtts),
        ];
        let known = kinds.into_iter().filter(|(_, values)| self.parts.iter().any(|part| values(part).len() > 1));
        known.flat_map(|(label, values)| [self.distribution(label, values), self.boxes(label, values)]).collect()
    }

    fn distribution(&self, label: &str, values: Values) -> Chart {
        let series = self.parts.iter().map(|part| Series::distribution(&part.name, values(part).iter().copied()));
        let (x, y) = (Axis::linear(label), Axis::linear("share not above").within(0.0, 1.0));
        Chart { title: String::new(), x, y, series: series.collect(), caption: String::new() }
    }

    fn boxes(&self, label: &str, values: Values) -> Chart {
        let series = self.parts.iter().enumerate();
        let series = series.map(|(place, part)| Series::spread(&part.name, place, values(part).iter().copied()));
        let names: Vec<_> = self.parts.iter().map(|part| part.name.clone()).collect();
        // Names that do not fit stand in the legend.
        let longest = names.iter().map(|name| name.chars().count() + 2).max().unwrap_or(0);
        let names = if longest * names.len() <= LETTERS { names } else { vec![String::new(); names.len()] };
        let (x, y) = (Axis::names("", names), Axis::linear(label));
        let caption = "Boxes: quartiles and median; whiskers: the last values within 1.5 interquartile ranges.";
        Chart { title: String::new(), x, y, series: series.collect(), caption: caption.into() }
    }
}

impl Part {
    fn take(&mut self, run: &Run, group: &str, instants: &BTreeSet<u64>) {
        self.runs += 1;
        let is_member = |flow: usize| run.groups[flow] == group;
        for (_, flow) in run.report.flows.iter().enumerate().filter(|(at, _)| is_member(*at)) {
            self.goodputs.extend(flow.goodput_bps.map(|bps| bps / 1e6));
            self.times.extend(flow.start_s.zip(flow.end_s).filter(|_| flow.complete).map(|(start, end)| end - start));
        }
        if self.runs > RUNS {
            return;
        }
        let mut delivered = vec![(0.0, 0.0); run.groups.len()];
        let mut goodput: BTreeMap<u64, f64> = BTreeMap::new();
        let mut rtt: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let samples = run.flow_samples.iter().filter(|sample| is_member(sample.flow as usize));
        for sample in samples.filter(|sample| instants.contains(&sample.at.as_nanos())) {
            let (time, bits) = (sample.at.as_secs_f64(), sample.delivered.as_u64() as f64 * 8.0);
            let before = std::mem::replace(&mut delivered[sample.flow as usize], (time, bits));
            if time > before.0 {
                *goodput.entry(sample.at.as_nanos()).or_default() += (bits - before.1) / (time - before.0) / 1e6;
            }
            rtt.entry(sample.at.as_nanos()).or_default().extend(sample.srtt.map(|srtt| srtt.as_millis_f64()));
        }
        for (time, value) in goodput {
            self.goodput.entry(time).or_default().push(value);
        }
        for (time, values) in rtt.into_iter().filter(|(_, values)| !values.is_empty()) {
            self.rtt.entry(time).or_default().push(values.iter().sum::<f64>() / values.len() as f64);
            self.rtts.extend(values);
        }
    }
}

/// The instants, in nanoseconds, at which all flows were sampled. Between them a flow's window may have changed, when nothing is
/// known of the others.
fn common_instants(samples: &[FlowSample]) -> BTreeSet<u64> {
    let flows = samples.iter().map(|sample| sample.flow).collect::<BTreeSet<_>>().len();
    let mut sampled: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for sample in samples {
        sampled.entry(sample.at.as_nanos()).or_default().insert(sample.flow);
    }
    sampled.into_iter().filter(|(_, seen)| seen.len() == flows).map(|(at, _)| at).collect()
}

/// The mean of the runs at each time, while half of them last, in the band of its confidence.
fn mean(name: &str, values: &BTreeMap<u64, Vec<f64>>) -> Option<Series> {
    let most = values.values().map(Vec::len).max()?;
    let lasting = values.iter().filter(|(_, values)| values.len() * 2 >= most);
    let estimates: Vec<_> = lasting
        .filter_map(|(nanos, values)| Some((*nanos as f64 / 1e9, Estimate::of(values.iter().copied())?)))
        .collect();
    let points = estimates.iter().map(|(time, estimate)| (*time, estimate.mean)).collect();
    let band = estimates.iter().filter_map(|(time, estimate)| {
        let (low, high) = estimate.interval?;
        // Rates and times are not below zero, whatever the interval says.
        Some((*time, low.max(0.0), high))
    });
    let band: Vec<_> = band.collect();
    Some(Series { band: (!band.is_empty()).then_some(band), ..Series::new(name, Style::Line, points) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_its_band_and_ends_with_half_of_the_runs() {
        let values = BTreeMap::from([
            (1_000_000_000, vec![1.0, 2.0, 3.0, 2.0]),
            (2_000_000_000, vec![4.0, 6.0]),
            (3_000_000_000, vec![9.0]),
        ]);
        let series = mean("a", &values).expect("values");
        assert_eq!(series.points, [(1.0, 2.0), (2.0, 5.0)]);
        let band = series.band.expect("several runs");
        assert!(band[0].1 < 2.0 && band[0].1 >= 0.0 && band[0].2 > 2.0, "{band:?}");
        assert_eq!(mean("one", &BTreeMap::from([(1, vec![1.0])])).expect("a value").band, None);
    }

    #[test]
    fn sums_are_of_instants_at_which_all_flows_were_sampled() {
        let sample = |(at, flow)| FlowSample { flow, at: units::Instant::from_nanos(at), ..FlowSample::default() };
        let samples = [(3, 1), (5, 0), (5, 1), (7, 0), (7, 0), (10, 0), (10, 1)].map(sample);
        assert_eq!(common_instants(&samples), BTreeSet::from([5, 10]));
    }

    #[test]
    fn pictures_say_of_how_many_runs_they_have_samples() {
        let of = |runs| Comparison { parts: vec![Part { runs, ..Part::default() }] };
        assert_eq!(of(20).title("means over time"), "means over time, 20 seeds");
        assert_eq!(of(300).title("means over time"), "means over time, 200 of 300 seeds");
        assert_eq!(of(300).title("distributions"), "distributions, 300 seeds; RTT of 200");
    }

    #[test]
    fn nothing_is_drawn_where_there_is_nothing_to_compare() {
        assert!(Comparison::default().pictures().is_empty());
        let part = |name: &str| Part { name: name.into(), runs: 2, goodputs: vec![1.0, 2.0], ..Part::default() };
        let one = Comparison { parts: vec![part("a"), part("b")] };
        let pictures = one.pictures();
        assert_eq!(pictures.iter().map(|picture| picture.0).collect::<Vec<_>>(), ["distributions"]);
        for expected in ["share not above", "goodput of a flow, Mbit/s", "distributions, 2 seeds"] {
            assert!(pictures[0].1.as_ref().expect("drawn").contains(expected), "{expected}");
        }
    }
}
