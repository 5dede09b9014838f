//! A finished run as a page: one file with the curves of the live page, replayed time, and tables. It requests nothing.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};

/// Points of each curve: what a wide screen shows, and what bounds the file.
const POINTS: usize = 480;
/// Points over which throughput is measured: one per cent of the run.
const WINDOW: usize = 5;
/// Curves of a page; more hide each other.
pub const MAX_COURSES: usize = 12;

/// A finished run.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// What was run.
    pub title: String,
    /// What was found, in one sentence.
    pub headline: String,
    /// What each path delivered, at most [`MAX_COURSES`] of them: others are left out, which the page says.
    pub courses: Vec<Course>,
    /// What the link allows any protocol, if that is known.
    pub limit: Option<Course>,
    /// Figures.
    pub tables: Vec<Table>,
    /// How to read it.
    pub note: String,
    /// What makes it again.
    pub command: String,
}

/// What was delivered over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    /// The path, variant or flow.
    pub name: String,
    /// Seconds, and bytes delivered since the start; both never fall.
    pub points: Vec<(f64, f64)>,
    /// Whether these are all bytes that were to be delivered. Otherwise the run ended before, or there was no end to them.
    pub is_complete: bool,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The heads of its columns.
    pub columns: Vec<String>,
    /// So many columns at the left are text; the others are numbers.
    pub texts: usize,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

impl Course {
    /// When the last byte had arrived.
    pub fn end_s(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.0)
    }

    /// All bytes.
    pub fn bytes(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.1)
    }

    /// Bytes delivered by `time`, evenly between two points.
    fn at(&self, time: f64) -> f64 {
        let next = self.points.partition_point(|point| point.0 <= time);
        let Some(&(end, bytes)) = self.points.get(next) else { return self.bytes() };
        let (start, before) = if next == 0 { (0.0, 0.0) } else { self.points[next - 1] };
        if end > start { before + (bytes - before) * (time - start) / (end - start) } else { bytes }
    }

    /// Its curves over `times`, which are evenly apart; nothing after its end.
    fn curves(&self, times: &[f64], is_limit: bool) -> Value {
        let received: Vec<f64> = times.iter().map(|time| self.at(*time)).collect();
        let done = times.partition_point(|time| *time < self.end_s());
        let is_shown = |at: usize| is_limit || at <= done;
        let rate = |at: usize| {
            let from = at.saturating_sub(WINDOW);
            let seconds = times[at] - times[from];
            let bytes = received[at] - received[from];
            if seconds > 0.0 { (8.0 * bytes / seconds).round() } else { 0.0 }
        };
        // The link's rate is there before it is used, and after.
        let rates: Vec<f64> = (0..times.len()).map(rate).collect();
        let peak = rates.iter().copied().fold(0.0, f64::max);
        let rate = |at: usize| if is_limit { peak } else { rates[at] };
        let column = |value: &dyn Fn(usize) -> f64| -> Vec<Option<f64>> {
            (0..times.len()).map(|at| is_shown(at).then(|| value(at))).collect()
        };
        json!({
            "name": self.name,
            "is_limit": is_limit,
            "is_complete": self.is_complete,
            "whole": self.bytes().round(),
            "end_s": self.end_s(),
            "received": column(&|at| received[at].round()),
            "rates": column(&rate),
        })
    }
}

/// How `subject` compares: "2.6 times as fast as cubic, 1.1 times as fast as bbr; 98.8 % of what the link allows". `others` are the
/// times that they took for the same data in which the subject took `time_s`; `share` is the subject's of the limit.
pub fn headline(subject: &str, time_s: f64, others: &[(String, f64)], share: Option<f64>) -> String {
    let than = |(name, other): &(String, f64)| {
        if *other >= time_s {
            format!("{} times as fast as {name}", factor(other / time_s))
        } else {
            format!("{} times as long as {name}", factor(time_s / other))
        }
    };
    let mut said: Vec<String> = others.iter().filter(|(_, other)| *other > 0.0 && time_s > 0.0).map(than).collect();
    if let Some(share) = share {
        said.push(format!("{:.1} % of what the link allows", 100.0 * share));
    }
    if said.is_empty() { subject.to_owned() } else { format!("{subject}: {}", said.join(", ")) }
}

/// Two significant digits, and more above 100.
fn factor(factor: f64) -> String {
    if factor >= 9.95 { format!("{factor:.0}") } else { format!("{factor:.1}") }
}

impl Replay {
    /// The page, in one file.
    pub fn html(&self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { "bentpipe: " (self.title) }
                    link rel="icon" href="data:,";
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header { h1 { "bentpipe" } p.about { (self.title) } }
                    main { (self.body()) }
                    footer { "This file needs no network. Curves by uPlot (MIT licence)." }
                    script type="application/json" id="run" { (PreEscaped(in_script(&self.data()))) }
                    script { (PreEscaped(script())) }
                }
            }
        };
        page.into_string()
    }

    fn body(&self) -> Markup {
        let left_out = self.courses.len().saturating_sub(MAX_COURSES);
        html! {
            p.headline { (self.headline) }
            noscript { p.notice { "The curves need JavaScript; the tables do not." } }
            div #charts .charts {}
            div.time {
                button #play type="button" { "Replay" }
                label for="moment" { "Time" }
                input #moment type="range" min="0" step="1";
                output #when for="moment" {}
            }
            div.wide tabindex="0" role="region" aria-labelledby="now-caption" {
                table {
                    caption #now-caption { "At this time" }
                    thead { tr {
                        th scope="col" { "path" }
                        @for head in ["received", "of all", "throughput", ""] {
                            @if head.is_empty() { td {} } @else { th.number scope="col" { (head) } }
                        }
                    } }
                    tbody #now {}
                }
            }
            @if left_out > 0 { p.note { "Curves of " (left_out) " others are left out." } }
            @for table in &self.tables { (table.html()) }
            p.note { (self.note) }
            pre { (self.command) }
        }
    }

    fn data(&self) -> Value {
        // The limit is that of all courses.
        let end = self.courses.iter().map(Course::end_s).fold(0.0, f64::max);
        let times: Vec<f64> = (0..=POINTS).map(|at| round(end * at as f64 / POINTS as f64)).collect();
        let mut curves: Vec<Value> =
            self.courses.iter().take(MAX_COURSES).map(|course| course.curves(&times, false)).collect();
        curves.extend(self.limit.iter().map(|limit| limit.curves(&times, true)));
        json!({ "times": times, "courses": curves })
    }
}

/// Four decimals: a tenth of a millisecond.
fn round(seconds: f64) -> f64 {
    (seconds * 1e4).round() / 1e4
}

impl Table {
    fn html(&self) -> Markup {
        let class = |at: usize| (at >= self.texts).then_some("number");
        html! {
            div.wide tabindex="0" role="region" aria-label=(self.caption) {
                table {
                    caption { (self.caption) }
                    thead { tr { @for (at, head) in self.columns.iter().enumerate() { th scope="col" class=[class(at)] { (head) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (at, cell) in row.iter().enumerate() {
                                    @if at == 0 { th scope="row" { (cell) } } @else { td class=[class(at)] { (cell) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Nothing is loaded: all of it is in the file.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

const STYLE: &str = concat!(
    include_str!("../assets/uplot.css"),
    include_str!("../assets/page.css"),
    include_str!("../assets/replay.css")
);

/// The modules of the page as one script.
fn script() -> String {
    let modules =
        [include_str!("../assets/numbers.js"), include_str!("../assets/plot.js"), include_str!("../assets/replay.js")];
    let lines = modules.into_iter().flat_map(str::lines).filter(|line| !line.starts_with("import "));
    let body: String = lines.map(|line| line.strip_prefix("export ").unwrap_or(line).to_owned() + "\n").collect();
    format!("{}\n(() => {{\n\"use strict\";\n{body}}})();", include_str!("../assets/uplot.js"))
}

/// JSON that cannot end the element in which it stands.
fn in_script(data: &Value) -> String {
    data.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(name: &str, start: f64, end: f64, bytes: f64) -> Course {
        Course { name: name.into(), points: vec![(0.0, 0.0), (start, 0.0), (end, bytes)], is_complete: true }
    }

    fn replay() -> Replay {
        Replay {
            title: "1 MB <up>".into(),
            headline: headline("bentpipe", 2.0, &[("cubic".into(), 8.0)], Some(0.95)),
            courses: vec![even("bentpipe", 0.5, 2.0, 1e6), even("</script>", 0.5, 8.0, 1e6)],
            limit: Some(even("limit", 0.4, 1.9, 1e6)),
            tables: vec![Table {
                caption: "Paths".into(),
                columns: vec!["path".into(), "time".into()],
                texts: 1,
                rows: vec![vec!["bentpipe".into(), "2.00 s".into()]],
            }],
            note: "a note".into(),
            command: "bentpipe demo".into(),
        }
    }

    #[test]
    fn the_headline_says_how_many_times_as_fast_and_how_much_of_the_limit() {
        let others = [("cubic".to_owned(), 5.2), ("bbr".to_owned(), 2.2)];
        assert_eq!(
            headline("bentpipe", 2.0, &others, Some(0.988)),
            "bentpipe: 2.6 times as fast as cubic, 1.1 times as fast as bbr, 98.8 % of what the link allows"
        );
        assert_eq!(headline("a", 4.0, &[("b".into(), 2.0)], None), "a: 2.0 times as long as b");
        assert_eq!(headline("a", 1.0, &[("b".into(), 123.4)], None), "a: 123 times as fast as b");
        assert_eq!(headline("a", 0.0, &[("b".into(), 1.0)], None), "a");
    }

    #[test]
    fn curves_keep_what_was_delivered_and_end_with_their_path() {
        let data = replay().data();
        assert_eq!(data["times"].as_array().unwrap().len(), POINTS + 1);
        assert_eq!(data["times"][POINTS], 8.0);
        let [first, second, limit] = [0, 1, 2].map(|at| &data["courses"][at]);
        assert_eq!((&first["name"], &limit["name"]), (&json!("bentpipe"), &json!("limit")));
        // 2 s of 8 s.
        assert_eq!(first["received"][POINTS / 4], 1e6);
        assert_eq!(first["received"][POINTS / 4 + 1], Value::Null);
        assert_eq!(second["received"][POINTS], 1e6);
        assert_eq!(limit["received"][POINTS], 1e6, "the limit stays to the end");
        assert!(limit["rates"][0].as_f64() > Some(5e6) && limit["rates"][0] == limit["rates"][POINTS], "{limit}");
        // 1 MB in 1.5 s.
        let rate = first["rates"][POINTS / 8].as_f64().unwrap();
        assert!((rate / (8e6 / 1.5) - 1.0).abs() < 0.01, "{rate}");
        assert_eq!(first["rates"][0], 0.0);
    }

    #[test]
    fn times_are_those_of_all_courses_though_not_all_are_drawn() {
        let courses = (1..=20).map(|end| even("x", 0.1, f64::from(end), 1e3)).collect();
        let data = Replay { courses, ..replay() }.data();
        assert_eq!(data["times"][POINTS], 20.0);
        assert_eq!(data["courses"].as_array().unwrap().len(), MAX_COURSES + 1);
    }

    #[test]
    fn bytes_between_points_are_spread_evenly_and_steps_are_kept() {
        let points = vec![(1.0, 100.0), (1.0, 200.0), (3.0, 400.0)];
        let course = Course { points, ..Course::default() };
        assert_eq!([0.5, 1.0, 2.0, 3.0, 9.0].map(|time| course.at(time)), [50.0, 200.0, 300.0, 400.0, 400.0]);
        assert_eq!(Course::default().at(1.0), 0.0);
    }

    #[test]
    fn the_page_is_one_bounded_file_without_the_callers_markup() {
        let page = replay().html();
        for expected in [
            "95.0 % of what the link allows",
            "1 MB &lt;up&gt;",
            "\\u003c/script>",
            "<caption>Paths</caption>",
            "2.00 s</td>",
            "bentpipe demo",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
        let text = page.replace("https://github.com/leeoniya/uPlot (v1.6.32)", "");
        for outside in ["http://", "https://", "src=\"", "@import", "import {", "export "] {
            assert!(!text.contains(outside), "{outside}");
        }
        assert_eq!(text.matches("</script>").count(), 2);
        let large = Replay { courses: vec![even("x", 0.1, 12_345.678, 98_765_432_109.0); 1000], ..replay() };
        let page = large.html();
        assert!(page.len() < 400_000, "{} bytes", page.len());
        assert!(page.contains("Curves of 988 others are left out."));
    }

    #[test]
    fn a_run_without_data_is_a_page_too() {
        assert!(Replay::default().html().contains("id=\"run\""));
    }
}
