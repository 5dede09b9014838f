//! `--page`: the first run of each variant as a page with replayed time.

use super::report::Document;
use crate::output::Failure;
use link::LinkConfig;
use results::{Error, PartialFile, Run};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Bytes, Duration, Probability, Rate};
use web::{Course, Replay};

/// What `--page` shows of runs, collected while they end.
pub struct Page {
    file: PathBuf,
    variants: Vec<Variant>,
    seen: BTreeSet<Option<Arc<str>>>,
}

/// The first run of a variant.
struct Variant {
    /// One curve, or one for each flow where the scenario has no variants.
    courses: Vec<Course>,
    /// When its first flow started.
    start_s: f64,
    link: Option<Bottleneck>,
    seed: u64,
}

/// The link that was used most, if its rate and delay are constant.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bottleneck {
    rate: Rate,
    delay: Duration,
    /// Of its packets, so many were lost on the way.
    loss: Probability,
}

/// How often flows are sampled if the scenario does not say.
pub const INTERVAL: Duration = Duration::from_millis(100);

impl Page {
    /// Tells at once if `file` cannot be written. What it has stays until the page is written.
    pub fn create(file: &Path) -> Result<Self, Failure> {
        let is_there = file.exists();
        let try_writing = || {
            File::options().write(true).create(true).truncate(false).open(file)?;
            if is_there { Ok(()) } else { fs::remove_file(file.canonicalize()?) }
        };
        try_writing().map_err(|error| Failure::unwritable(format!("--page {}", file.display()), &error))?;
        Ok(Self { file: file.to_owned(), variants: Vec::new(), seen: BTreeSet::new() })
    }

    /// Takes what is shown of `run`.
    pub fn take(&mut self, run: &Run) {
        if !self.seen.insert(run.label.variant.clone()) {
            return;
        }
        let started = run.report.flows.iter().filter_map(|flow| flow.start_s);
        self.variants.push(Variant {
            courses: courses(run),
            start_s: started.min_by(f64::total_cmp).unwrap_or(0.0),
            link: bottleneck(run),
            seed: run.label.seed,
        });
    }

    /// Whether no run has ended.
    pub fn is_empty(&self) -> bool {
        self.variants.is_empty()
    }

    /// Writes the page.
    pub fn write(&self, document: &Document, command: String) -> Result<(), Failure> {
        let html = self.replay(document, command).html();
        // A link is the file that it leads to.
        let file = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        write_whole(&file, &html).map_err(|error| Failure::failed(format!("{}: {error}", self.file.display())))
    }

    fn replay(&self, document: &Document, command: String) -> Replay {
        let seed = self.variants.first().map_or(0, |variant| variant.seed);
        let limit = self.limit();
        let limited = if limit.is_some() {
            "The limit is that of the link that was used most: its rate less headers and losses, and its delay. "
        } else {
            ""
        };
        Replay {
            title: document.title(),
            headline: self.headline(),
            courses: self.variants.iter().flat_map(|variant| variant.courses.clone()).collect(),
            limit,
            tables: document.tables(),
            note: format!(
                "Headline and curves are those of seed {seed}; time is simulated. Bytes count when they are delivered in order: what waited for a \
                 retransmission counts at once. {limited}Made by"
            ),
            command,
        }
    }

    /// What the link allows, if it is the same link in all variants.
    fn limit(&self) -> Option<Course> {
        let first = self.variants.first()?;
        let link = first.link?;
        let is_same =
            |variant: &Variant| variant.link.is_some_and(|other| (other.rate, other.delay) == (link.rate, link.delay));
        let bytes = self.variants.iter().map(Variant::bytes).fold(0.0, f64::max);
        let start = first.start_s + link.delay.as_secs_f64();
        let points = vec![(0.0, 0.0), (start, 0.0), (link.end_s(first.start_s, bytes), bytes)];
        let limit = Course { name: "limit of the link".into(), points, is_complete: true };
        (bytes > 0.0 && self.variants.iter().all(is_same)).then_some(limit)
    }

    /// The fastest variant, beside CUBIC or else beside the slowest.
    fn headline(&self) -> String {
        let Some(fastest) = self.variants.iter().max_by(|one, other| one.speed().total_cmp(&other.speed())) else {
            return String::new();
        };
        let others = || self.variants.iter().filter(|other| !std::ptr::eq(*other, fastest) && other.speed() > 0.0);
        let cubic = others().find(|variant| variant.name().to_lowercase().contains("cubic"));
        let slowest = others().min_by(|one, other| one.speed().total_cmp(&other.speed()));
        let beside = cubic.or(slowest).map(|other| (other.name(), fastest.speed() / other.speed()));
        let share = self.limit().and(fastest.link).map(|link| {
            let least = link.end_s(fastest.start_s, fastest.bytes()) - fastest.start_s;
            least / (fastest.end_s() - fastest.start_s)
        });
        web::headline(&fastest.name(), 1.0, &beside.into_iter().collect::<Vec<_>>(), share)
    }
}

/// Writes `text` to `file`: that has all of it, or what it had before.
fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    if file.exists() && !file.is_file() {
        // A device or a pipe.
        return fs::write(file, text);
    }
    match PartialFile::create(file) {
        Ok(mut partial) => {
            partial.write_all(text.as_bytes())?;
            partial.finish().map_err(cause)
        }
        // The directory takes no other file.
        Err(error) => match cause(error) {
            error if error.kind() == io::ErrorKind::PermissionDenied => fs::write(file, text),
            error => Err(error),
        },
    }
}

/// The system's answer, for messages that name the file themselves.
fn cause(error: Error) -> io::Error {
    match error {
        Error::File { source, .. } => source,
        other => io::Error::other(other),
    }
}

impl Variant {
    fn name(&self) -> String {
        match &self.courses[..] {
            [course] => course.name.clone(),
            _ => "all flows".to_owned(),
        }
    }

    fn bytes(&self) -> f64 {
        self.courses.iter().map(Course::bytes).sum()
    }

    fn end_s(&self) -> f64 {
        self.courses.iter().map(Course::end_s).fold(0.0, f64::max)
    }

    /// Bytes per second.
    fn speed(&self) -> f64 {
        let seconds = self.end_s() - self.start_s;
        if seconds > 0.0 { self.bytes() / seconds } else { 0.0 }
    }
}

impl Bottleneck {
    /// When it can have delivered so many bytes at the earliest.
    fn end_s(&self, start_s: f64, bytes: f64) -> f64 {
        let sent = model::limit::time(0.0, Bytes::new(bytes as u64), self.rate, Duration::ZERO, self.loss);
        start_s + self.delay.as_secs_f64() + sent.as_secs_f64()
    }
}

/// One course for a variant; one for each group of flows without variants.
fn courses(run: &Run) -> Vec<Course> {
    let mut names: Vec<String> = Vec::new();
    // What each flow of each course has delivered more by what time.
    let mut steps: Vec<Vec<(f64, f64)>> = Vec::new();
    let places: Vec<usize> = run
        .groups
        .iter()
        .map(|group| {
            let name = run.label.variant.as_deref().unwrap_or(group);
            names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                steps.push(Vec::new());
                names.len() - 1
            })
        })
        .collect();
    let mut delivered: BTreeMap<usize, f64> = BTreeMap::new();
    for sample in &run.flow_samples {
        let flow = sample.flow as usize;
        let (bytes, before) = (sample.delivered.as_u64() as f64, delivered.entry(flow).or_default());
        steps[places[flow]].push((sample.at.as_secs_f64(), bytes - *before));
        *before = bytes;
    }
    for (flow, report) in run.report.flows.iter().enumerate() {
        let before = delivered.get(&flow).copied().unwrap_or(0.0);
        if let Some(end) = report.end_s {
            steps[places[flow]].push((end, report.bytes as f64 - before));
        }
    }
    let mut courses: Vec<_> = names
        .into_iter()
        .zip(steps)
        .map(|(name, steps)| Course { name, points: sums(steps), is_complete: true })
        .collect();
    for (report, place) in run.report.flows.iter().zip(places) {
        courses[place].is_complete &= report.complete;
    }
    courses
}

/// Sums over time, until the last byte.
fn sums(mut steps: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    steps.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut points: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    let mut bytes = 0.0;
    for (time, more) in steps {
        bytes += more.max(0.0);
        match points.last_mut() {
            Some(last) if last.0 == time => last.1 = bytes,
            _ => points.push((time, bytes)),
        }
    }
    let done = points.partition_point(|point| point.1 < bytes);
    points.truncate(done + 1);
    points
}

/// The direction that was used most, if its rate and delay are constant.
fn bottleneck(run: &Run) -> Option<Bottleneck> {
    let (direction, report) = run.busiest()?;
    let (config, counters) = (&direction.config, &report.counters);
    let is_constant = config.rate_steps.is_none() && config.handover.is_none();
    let (lost, arrived) = (counters.dropped_loss.packets as f64, counters.delivered.packets as f64);
    // Neither recorded opportunities nor a shared carrier have a rate.
    Some(Bottleneck {
        rate: config.rate.filter(|_| is_constant)?,
        delay: constant_delay(config)?,
        loss: Probability::new(lost / (lost + arrived).max(1.0)).unwrap_or_default(),
    })
}

/// The delay of a link without handovers, if it never changes.
fn constant_delay(config: &LinkConfig) -> Option<Duration> {
    let steps = config.delay_steps.iter().flat_map(|steps| &steps.steps);
    // `delay` holds until the first step.
    let is_replaced = steps.clone().next().is_some_and(|(at, _)| at.is_zero());
    let plain = Some(config.delay).filter(|_| !is_replaced);
    let mut delays = plain.into_iter().chain(steps.map(|(_, delay)| *delay));
    let first = delays.next()?;
    delays.all(|delay| delay == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_there_stays_until_the_next_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html");
        fs::write(&file, "the last run").unwrap();
        drop(Page::create(&file).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "the last run");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(Page::create(&folder.path().join("missing/page.html")).is_err());
        assert!(Page::create(folder.path()).is_err(), "a directory is no file");
    }

    #[test]
    fn sums_end_with_the_last_byte_and_keep_pauses() {
        let steps = vec![(2.0, 5.0), (1.0, 10.0), (1.5, 0.0), (2.0, 5.0), (3.0, 0.0)];
        assert_eq!(sums(steps), [(0.0, 0.0), (1.0, 10.0), (1.5, 10.0), (2.0, 20.0)]);
        assert_eq!(sums(Vec::new()), [(0.0, 0.0)]);
    }

    fn variant(name: &str, end: f64, link: Option<Bottleneck>) -> Variant {
        let points = vec![(0.0, 0.0), (end, 965_333.0)];
        let courses = vec![Course { name: name.into(), points, is_complete: true }];
        Variant { courses, start_s: 0.0, link, seed: 1 }
    }

    #[test]
    fn the_headline_compares_the_fastest_with_cubic_and_with_the_link() {
        // 965,333 bytes of payload are 8 Mbit on the link.
        let bottleneck =
            Bottleneck { rate: Rate::from_bps(8_000_000), delay: Duration::from_millis(500), loss: Probability::ZERO };
        let link = Some(bottleneck);
        let page = |variants| Page { file: PathBuf::new(), variants, seen: BTreeSet::new() };
        let three = page(vec![variant("slow", 9.0, link), variant("cubic", 4.0, link), variant("quick", 2.0, link)]);
        assert_eq!(three.headline(), "quick: 2.0 times as fast as cubic, 75.0 % of what the link allows");
        let limit = three.limit().unwrap();
        assert!((limit.end_s() - 1.5).abs() < 1e-3, "{limit:?}");
        // Links that differ have no limit in common.
        let other = Some(Bottleneck { rate: Rate::from_bps(1_000_000), ..bottleneck });
        let differ = page(vec![variant("quick", 2.0, link), variant("slow", 4.0, other)]);
        assert_eq!((differ.headline(), differ.limit()), ("quick: 2.0 times as fast as slow".to_owned(), None));
        assert_eq!(page(vec![variant("file", 3.0, link)]).headline(), "file: 50.0 % of what the link allows");
        let late = Variant { start_s: 60.0, ..variant("file", 63.0, link) };
        assert_eq!(page(vec![late]).headline(), "file: 50.0 % of what the link allows", "it starts after a minute");
    }

    #[test]
    fn the_limit_is_that_of_the_link_that_was_used_most_or_none() {
        let bottleneck_of = |links: &str| {
            let text = format!(
                r#"
                version = 1
                nodes = ["ground", "gateway", "sky"]
                link = [
                    {{ name = "lan", between = ["ground", "gateway"], rate = "1Gbit/s", queue = "100packets" }},
                    {{ name = "sat", between = ["gateway", "sky"], queue = "100packets", {links} }},
                ]
                flow = [{{ name = "file", from = "ground", to = "sky", tcp = "cubic", bulk = {{ size = "1MB" }} }}]
                carrier = [{{ name = "return", rate = "1Mbit/s" }}]
                "#
            );
            let mut loaded = scenario::load(&text, "page.toml", &[], &|_| Err("none".into())).unwrap();
            let replica = ::replicas::Replica { scenario: Arc::new(loaded.scenarios.remove(0)), seed: 1 };
            let run = ::replicas::single(&replica, &::replicas::Recording::Nothing, |_| Ok(()), |_| true);
            bottleneck(&run.unwrap().unwrap()).map(|link| (link.rate, link.delay))
        };
        let rate = Rate::from_bps(1_000_000);
        let delayed = |millis| Some((rate, Duration::from_millis(millis)));
        let plain = r#"rate = "1Mbit/s", delay = "10ms""#;
        assert_eq!(bottleneck_of(plain), delayed(10));
        for (steps, expected) in [
            (r#"["0s", "275ms"]"#, delayed(275)),
            (r#"["1s", "10ms"]"#, delayed(10)),
            (r#"["0s", "275ms"], ["1s", "280ms"]"#, None),
            (r#"["1s", "275ms"]"#, None),
        ] {
            assert_eq!(bottleneck_of(&format!("{plain}, delay_steps = {{ steps = [{steps}] }}")), expected, "{steps}");
        }
        assert_eq!(bottleneck_of(r#"delay = "10ms", opportunities = { millis = [6, 12] }"#), None);
        let dama = r#"delay = "10ms", forward = { dama = { carrier = "return", rbdc = "1Mbit/s" } }"#;
        assert_eq!(bottleneck_of(dama), None);
    }
}
