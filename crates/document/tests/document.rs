//! What documents say about what does not fit.
#![allow(clippy::unwrap_used, reason = "a test")]

use document::{
    Change, Document, Fault, Format, Found, Interval, MAX_DEPTH, Name, Node, Origin, PositiveRate, RateLimit, Section,
    Size, parse, reference,
};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A file for tests.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct File {
    /// Who speaks.
    host: Vec<Host>,
    /// Times by name.
    #[serde(default)]
    times: BTreeMap<String, Interval>,
}

/// A host.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Host {
    /// Its name.
    name: Name,
    /// How fast it is.
    rate: Option<RateLimit>,
    /// What it keeps.
    buffer: Option<Size>,
    /// Its share.
    #[schemars(range(min = 0, max = 1))]
    share: Option<f64>,
    /// How it sends.
    #[serde(default)]
    order: Order,
    /// Its key.
    #[schemars(extend("x-secret" = true))]
    key: Option<Name>,
}

/// An order.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// As it comes.
    #[default]
    Plain,
    /// In turn.
    RoundRobin,
}

fn format() -> Format {
    Format::of::<File>()
}

fn read(text: &str) -> Result<File, Vec<String>> {
    let format = format();
    let mut document = Document::read(text, "f.toml", &format).map_err(|faults| faults.0)?;
    let file = document.typed::<File>(&[]);
    document.finish(file).map_err(|faults| faults.0)
}

fn faults(text: &str) -> Vec<String> {
    read(text).expect_err("there are faults")
}

#[test]
fn every_fault_is_told_at_once_with_place_key_and_what_fits() {
    let text = "[[host]]\nname = \"12\"\nrate = \"2Tbit/s\"\nshare = 1.5\norder = \"round-robin\"\nbufer = \"1MB\"\n\
                [[host]]\nbuffer = 5\n[times]\n\"a b\" = \"1s\"\nok = \"0s\"\n[extra]\n";
    assert_eq!(
        faults(text),
        [
            "f.toml:2:8: host.12.name = \"12\": it is not a name of letters, digits, - and _, at most 48, not digits alone",
            "f.toml:3:8: host.12.rate = \"2Tbit/s\": it is not above 0bit/s and at most 1Tbit/s",
            "f.toml:4:9: host.12.share = 1.5: expected a number from 0 to 1",
            "f.toml:5:9: host.12.order = \"round-robin\": expected \"plain\", \"round_robin\"; did you mean round_robin?",
            "f.toml:6:1: host.12.bufer: unknown key; did you mean buffer?",
            "f.toml:7:1: host.1.name is missing: expected a name of letters, digits, - and _, at most 48, not digits alone",
            "f.toml:8:10: host.1.buffer = 5: expected a size above 0B, such as \"1MB\" or \"64KiB\"",
            "f.toml:10:1: times.a b: expected a name of letters, digits, - and _, at most 48, not digits alone",
            "f.toml:11:6: times.ok = \"0s\": it is not above 0s",
            "f.toml:12:2: extra: unknown key; known are host, times",
        ]
    );
}

#[test]
fn a_fault_found_late_has_the_place_of_its_value() {
    let format = format();
    let text = "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\nrate = \"1Mbit/s\"\n";
    let mut document = Document::read(text, "f.toml", &format).unwrap();
    let rate = document.typed::<RateLimit>(&["host", "b", "rate"]);
    assert_eq!(rate.unwrap().0.unwrap().as_bps(), 1_000_000);
    document.fault(&["host", "b", "rate"], " is more than a has");
    // A missing key is reported at the table that would contain it.
    document.fault(&["host", "a", "rate"], " is missing");
    assert!(document.is_faulty(&["host", "b"]) && !document.is_faulty(&["host", "b", "name"]));
    assert!(document.typed::<RateLimit>(&["host", "b", "rate"]).is_none(), "nothing is read from what is wrong");
    assert_eq!(
        document.finish(Some(())).unwrap_err().0,
        ["f.toml:1:1: host.a.rate is missing", "f.toml:5:8: host.b.rate is more than a has"]
    );
}

#[test]
fn what_only_deserialising_finds_has_its_place() {
    #[derive(Debug, Deserialize, JsonSchema)]
    struct Even {
        #[expect(dead_code, reason = "it is never read")]
        #[serde(deserialize_with = "even")]
        number: u32,
    }
    fn even<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let number = u32::deserialize(deserializer)?;
        if number % 2 == 0 { Ok(number) } else { Err(serde::de::Error::custom("it is odd")) }
    }
    let format = Format::of::<BTreeMap<String, Vec<Even>>>();
    let mut document = Document::read("a = [{ number = 2 },\n { number = 3 }]", "f", &format).unwrap();
    let read = document.typed::<BTreeMap<String, Vec<Even>>>(&[]);
    assert_eq!(document.finish(read).unwrap_err().0, ["f:2:13: a.1.number: it is odd"]);
}

#[test]
fn a_secret_is_not_shown_whatever_is_wrong_with_it() {
    for key in ["\"!hidden\"", "[\"hidden\"]", "hidden", "{ hidden = 1 }", "\"hidden", "'''hidden"] {
        let faults = faults(&format!("[[host]]\nname = \"a\"\nkey = {key}\n"));
        assert!(!faults.is_empty() && faults.iter().all(|fault| !fault.contains("hidden")), "{key}: {faults:?}");
    }
}

#[test]
fn control_characters_of_keys_and_names_are_escaped() {
    let text = "[[host]]\nname = \"a\\u001b[31m\"\nrate = 1\n[\"\\u001b]0;x\\u0007\\nfile: all is well\\u0085\"]\n";
    let faults = faults(text);
    assert!(faults.iter().all(|fault| !fault.contains(char::is_control)), "{faults:?}");
    for shown in ["host.a\\u{1b}[31m.rate = 1: ", ": \\u{1b}]0;x\\u{7}\\nfile: all is well\\u{85}: unknown key"] {
        assert!(faults.iter().any(|fault| fault.contains(shown)), "{shown} {faults:?}");
    }
}

#[test]
fn depth_and_size_have_limits() {
    let deep = |depth: usize| format!("a = {}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&deep(MAX_DEPTH)).is_ok());
    assert!(parse(&deep(MAX_DEPTH + 2)).is_err());
    assert!(parse(&deep(100_000)).is_err());
    let dotted = |depth: usize| format!("{}a = 1", "a.".repeat(depth));
    assert!(parse(&dotted(MAX_DEPTH - 1)).is_ok());
    assert!(parse(&dotted(MAX_DEPTH + 2)).is_err());
    let long = " ".repeat(document::MAX_BYTES + 1);
    let mut found = Found::default();
    found.add(parse(&long).err());
    assert_eq!(found.say("", "f", &[], &[]).0, ["f:1:1: the text has 67108865 bytes; 67108864 are the most"]);
}

#[test]
fn every_form_of_the_schema_is_read() {
    assert!(format().unknown_forms().is_empty());
    document::form!(
        /// Always wrong.
        Never(u8), "never", "nothing", "^$", |_| Err("it never fits".to_owned())
    );
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "it describes")]
    struct Odd {
        never: Never,
    }
    assert_eq!(Format::of::<Odd>().unknown_forms().into_iter().collect::<Vec<_>>(), ["never"]);
    let format = Format::of::<Odd>().with::<Never>();
    assert!(format.unknown_forms().is_empty());
    let document = Document::read("never = \"x\"", "f", &format).unwrap();
    assert_eq!(document.finish(Some(())).unwrap_err().0, ["f:1:9: never = \"x\": it never fits"]);
}

#[test]
fn a_quantity_may_have_bounds() {
    #[derive(Debug, Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "it is never read")]
    struct Bounded {
        #[schemars(extend("x-least" = "1s", "x-most" = "1h", "x-example" = "20s"))]
        time: Interval,
        #[schemars(extend("x-least" = "1kbit/s"))]
        rate: Option<PositiveRate>,
    }
    let format = Format::of::<Bounded>();
    let faults = |text: &str| Document::read(text, "f", &format).unwrap().finish(Some(())).err().map(|faults| faults.0);
    for wrong in ["0s", "999ms", "61min"] {
        let expected = format!("f:1:8: time = \"{wrong}\": expected a time from 1s to 1h, such as \"20s\"");
        assert_eq!(faults(&format!("time = \"{wrong}\"")), Some(vec![expected]));
    }
    assert_eq!(
        faults("time = 5\nrate = \"999bit/s\"").unwrap(),
        [
            "f:1:8: time = 5: expected a time from 1s to 1h, such as \"20s\"",
            "f:2:8: rate = \"999bit/s\": expected a rate of at least 1kbit/s",
        ]
    );
    assert_eq!(faults("time = \"1h\"\nrate = \"1kbit/s\""), None);
}

#[test]
fn what_is_read_is_written_and_reads_the_same() {
    let text = "[[host]]\nname = \"a\"\nrate = \"unlimited\"\nbuffer = \"1500B\"\n[[host]]\nname = \"b\"\nrate = \
                \"1234567bit/s\"\norder = \"round_robin\"\n[times]\nx = \"1500us\"\n";
    let file = read(text).unwrap();
    let json = serde_json::to_value(&file).unwrap();
    assert_eq!(serde_json::from_value::<File>(json).unwrap(), file);
}

#[test]
fn what_is_written_keeps_settings_in_their_tables() {
    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    struct Tables {
        first: BTreeMap<String, Interval>,
        hosts: Vec<Host>,
        none: Vec<Host>,
        last: BTreeMap<String, Interval>,
        plain: u8,
    }
    let interval = |text: &str| BTreeMap::from([("x".to_owned(), text.parse::<Interval>().unwrap())]);
    let host = read("[[host]]\nname = \"a\"\n").unwrap().host;
    let tables = Tables { first: interval("1s"), hosts: host, none: Vec::new(), last: interval("2s"), plain: 3 };
    let written = document::to_toml(&tables).unwrap();
    let format = Format::of::<Tables>();
    let mut document = Document::read(&written, "f", &format).unwrap();
    let read = document.typed::<Tables>(&[]);
    assert_eq!(document.finish(read).unwrap(), tables, "{written}");
}

#[test]
fn a_change_replaces_one_setting() {
    let format = format();
    let mut root = parse("[[host]]\nname = \"a\"\nshare = 0.5\n").unwrap();
    let apply = |root: &mut Node, text: &str| Change::parse(3, text).unwrap().apply(root, &format.schema());
    apply(&mut root, "host.a.rate=2Mbit/s").unwrap();
    apply(&mut root, "times.t=1s").unwrap();
    let file: File = root.typed(&[]).unwrap();
    assert_eq!(file.host[0].rate, Some(RateLimit(Some("2Mbit/s".parse().unwrap()))));
    assert_eq!(root.at("times.t").origin, Origin::Override(3));
    let missing: Fault = apply(&mut root, "host.b.rate=1Mbit/s").unwrap_err();
    let mut found = Found::default();
    found.add([missing]);
    let overrides = ["", "", "", "host.b.rate=1Mbit/s"].map(str::to_owned);
    let said = found.say("", "f", &overrides, &[]).0;
    assert_eq!(said, ["--set host.b.rate=1Mbit/s: host.b: there is no host called b; known are a"]);
}

#[test]
fn a_change_of_a_key_keeps_the_others_of_its_form_and_takes_the_place_of_another_form() {
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Start {
        At(Interval),
        Burst { size: u8 },
        Spread { every: Option<Interval>, spread: Option<Interval> },
    }
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Timed {
        start: Start,
    }
    let format = Format::of::<Timed>();
    let changed = |start: &str, change: &str| {
        let mut root = parse(&format!("start = {start}\n")).unwrap();
        Change::parse(0, change).unwrap().apply(&mut root, &format.schema()).unwrap();
        root.typed::<Timed>(&[]).unwrap().start
    };
    let [one, two] = ["1s", "2s"].map(|time| Some(time.parse::<Interval>().unwrap()));
    let spread = |every, spread| Start::Spread { every, spread };
    assert_eq!(changed("{ every = \"1s\" }", "start.spread=2s"), spread(one, two));
    assert_eq!(changed("{ every = \"1s\", spread = \"1s\" }", "start.spread=2s"), spread(one, two));
    assert_eq!(changed("{ size = 3 }", "start.spread=2s"), spread(None, two));
    assert_eq!(changed("\"1s\"", "start.spread=2s"), spread(None, two));
    assert_eq!(changed("{ every = \"1s\" }", "start.size=3"), Start::Burst { size: 3 });
}

#[test]
fn the_reference_has_a_row_for_each_key() {
    let page = reference(&format(), &[Section { heading: "The file", of: None }, Section::new("host", "Host")]);
    for row in [
        "| `host` | list: [host](#host) | required | Who speaks. |",
        "| `rate` | a rate above 0bit/s and at most 1Tbit/s, such as \"6Mbit/s\", or \"unlimited\" |  | How fast it is. |",
        "| `share` | a number from 0 to 1 |  | Its share. |",
    ] {
        assert!(page.contains(row), "{row}\n{page}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_reader_fail_or_speak_of_nothing(text in "[\\[\\]a-h.=\" \n0-9{},_'-]{0,80}") {
        match read(&text) {
            Ok(file) => prop_assert!(!file.host.is_empty() || text.contains("host")),
            Err(faults) => prop_assert!(!faults.is_empty() && faults.iter().all(|fault| fault.starts_with("f.toml:"))),
        }
    }

    #[test]
    fn a_rate_that_fits_is_read_as_units_reads_it(bps in 1u64..=1_000_000_000_000) {
        let text = format!("{bps}bit/s");
        prop_assert_eq!(text.parse::<PositiveRate>().map(|rate| rate.0.as_bps()), Ok(bps));
    }
}
