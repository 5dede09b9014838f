//! A TOML document that is read key by key and remembers what was wrong with it, and where.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The document, and the faults found so far.
#[derive(Debug)]
pub(super) struct Document<'a> {
    text: &'a str,
    file: &'a str,
    root: DeTable<'a>,
    /// Line and text.
    faults: Vec<(usize, String)>,
}

/// One table of the document, whose keys are taken out one after the other.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// `[link]` or `[[peer]]`.
    title: String,
    line: usize,
    text: &'a str,
    table: DeTable<'a>,
    /// Every key that was asked for.
    known: Vec<&'static str>,
    /// Every key that the file sets, with its line.
    present: Vec<(String, usize)>,
    faults: Vec<(usize, String)>,
}

impl<'a> Document<'a> {
    /// Parses `text`, called `file` in faults.
    pub(super) fn new(text: &'a str, file: &'a str) -> Result<Self, Vec<String>> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { text, file, root: root.into_inner(), faults: Vec::new() }),
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
                Err(vec![format!("{file}:{line}: {message}")])
            }
        }
    }

    /// Reports sections that are none of `known`.
    pub(super) fn expect_sections(&mut self, known: &[&'static str]) {
        for key in self.root.keys() {
            if !known.contains(&key.get_ref().as_ref()) {
                let line = line_of(self.text, key.span().start);
                self.faults
                    .push((line, format!("[{}]: unknown section{}", key.get_ref(), suggestion(key.get_ref(), known))));
            }
        }
    }

    /// The line on which the table `name` begins, 0 if it is missing.
    pub(super) fn line_of_section(&self, name: &str) -> usize {
        self.root.get(name).map_or(0, |value| line_of(self.text, value.span().start))
    }

    /// The table `name`, empty if it is missing.
    pub(super) fn section(&mut self, name: &str) -> Section<'a> {
        let title = format!("[{name}]");
        match self.root.remove(name) {
            None => Section::new(title, 0, self.text, DeTable::new()),
            Some(value) => {
                let line = line_of(self.text, value.span().start);
                match value.into_inner() {
                    DeValue::Table(table) => Section::new(title, line, self.text, table),
                    _ => {
                        self.fault(line, format!("{title}: expected a table"));
                        Section::new(title, line, self.text, DeTable::new())
                    }
                }
            }
        }
    }

    /// The tables of the array `name`.
    pub(super) fn sections(&mut self, name: &str) -> Vec<Section<'a>> {
        let title = format!("[[{name}]]");
        let Some(value) = self.root.remove(name) else { return Vec::new() };
        let line = line_of(self.text, value.span().start);
        let mut sections = Vec::new();
        if let DeValue::Array(items) = value.into_inner() {
            for item in items {
                let line = line_of(self.text, item.span().start);
                if let DeValue::Table(table) = item.into_inner() {
                    sections.push(Section::new(title.clone(), line, self.text, table));
                }
            }
        }
        if sections.is_empty() {
            self.fault(line, format!("{title}: expected tables, each headed {title}"));
        }
        sections
    }

    /// Reports a fault at `line` (0: the file as a whole).
    pub(super) fn fault(&mut self, line: usize, text: String) {
        self.faults.push((line, text));
    }

    /// Brings the faults into the order of their lines.
    pub(super) fn finish(&mut self) {
        self.faults.sort();
    }

    pub(super) fn faults(&self) -> &[(usize, String)] {
        &self.faults
    }

    /// The faults, one line each, with the file and the line.
    pub(super) fn into_faults(self) -> Vec<String> {
        let file = self.file;
        let at = |line| if line == 0 { format!("{file}: ") } else { format!("{file}:{line}: ") };
        self.faults.into_iter().map(|(line, text)| format!("{}{text}", at(line))).collect()
    }
}

impl<'a> Section<'a> {
    fn new(title: String, line: usize, text: &'a str, table: DeTable<'a>) -> Self {
        let present = table.keys().map(|key| (key.get_ref().to_string(), line_of(text, key.span().start))).collect();
        Self { title, line, text, table, known: Vec::new(), present, faults: Vec::new() }
    }

    /// The line on which the section begins.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Whether the file sets `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.present.iter().any(|(present, _)| present == key)
    }

    /// The line on which the file sets `key`, or else on which the section begins.
    pub(super) fn line_of_key(&self, key: &str) -> usize {
        self.present.iter().find(|(present, _)| present == key).map_or(self.line, |(_, line)| *line)
    }

    /// A value written as text, read by its type.
    pub(super) fn parsed<T: FromStr>(&mut self, key: &'static str, allowed: &str) -> Option<T> {
        self.checked(key, allowed, |_| true)
    }

    /// As [`Section::parsed`], and `valid`.
    pub(super) fn checked<T: FromStr>(
        &mut self,
        key: &'static str,
        allowed: &str,
        valid: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let value = self.take(key)?;
        let parsed = value.get_ref().as_str().and_then(|text| text.parse().ok()).filter(valid);
        self.or_fault(parsed, key, &value, allowed)
    }

    /// As [`Section::parsed`], for a value that no fault may show.
    pub(super) fn secret<T: FromStr>(&mut self, key: &'static str, allowed: &str) -> Option<T> {
        let value = self.take(key)?;
        let parsed = value.get_ref().as_str().and_then(|text| text.parse().ok());
        if parsed.is_none() {
            self.refuse(key, &format!("is malformed: expected {allowed}"));
        }
        parsed
    }

    /// As [`Section::checked`], and it must be there.
    pub(super) fn required<T: FromStr>(
        &mut self,
        key: &'static str,
        allowed: &str,
        valid: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        if !self.has(key) {
            self.missing(key, allowed);
        }
        self.checked(key, allowed, valid)
    }

    /// A text that is `valid`.
    pub(super) fn text(&mut self, key: &'static str, allowed: &str, valid: impl Fn(&str) -> bool) -> Option<String> {
        self.checked(key, allowed, |text: &String| valid(text))
    }

    /// A list of texts, each `valid`.
    pub(super) fn texts(
        &mut self,
        key: &'static str,
        allowed: &str,
        valid: impl Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        self.items(key, allowed, |item| item.as_str().filter(|text| valid(text)).map(str::to_owned))
    }

    /// A list of values written as texts.
    pub(super) fn list<T: FromStr>(&mut self, key: &'static str, allowed: &str) -> Option<Vec<T>> {
        self.items(key, allowed, |item| item.as_str()?.parse().ok())
    }

    /// A list of values each written as a number or as text.
    pub(super) fn list_or_numbers<T: FromStr>(&mut self, key: &'static str, allowed: &str) -> Option<Vec<T>> {
        self.items(key, allowed, of_text_or_number)
    }

    fn items<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        read: impl Fn(&DeValue<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.take(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            return self.or_fault(None, key, &value, allowed);
        };
        let mut list = Vec::new();
        for item in items.iter() {
            let parsed = read(item.get_ref());
            list.extend(self.or_fault(parsed, key, item, allowed));
        }
        Some(list)
    }

    /// One of the named values.
    pub(super) fn choice<T: Clone>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let value = self.take(key)?;
        let found = value.get_ref().as_str().and_then(|text| choices.iter().find(|(name, _)| *name == text));
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        self.or_fault(found.map(|(_, choice)| choice.clone()), key, &value, &names.join(" or "))
    }

    /// A value written as a number or as text.
    pub(super) fn parsed_or_number<T: FromStr>(&mut self, key: &'static str, allowed: &str) -> Option<T> {
        let value = self.take(key)?;
        self.or_fault(of_text_or_number(value.get_ref()), key, &value, allowed)
    }

    /// True or false.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.take(key)?;
        self.or_fault(value.get_ref().as_bool(), key, &value, "true or false")
    }

    /// A number within `range`.
    pub(super) fn number(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.take(key)?;
        let text = value.get_ref().as_float().map(|n| n.as_str()).or(value.get_ref().as_integer().map(|n| n.as_str()));
        let parsed = text.and_then(|text| text.replace('_', "").parse().ok()).filter(|number| range.contains(number));
        self.or_fault(parsed, key, &value, &format!("a number from {} to {}", range.start(), range.end()))
    }

    /// An integer within `range`.
    pub(super) fn integer(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.take(key)?;
        let parsed = value.get_ref().as_integer().and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
        let allowed = format!("an integer from {} to {}", range.start(), range.end());
        self.or_fault(parsed.filter(|n| range.contains(n)), key, &value, &allowed)
    }

    /// Reports that `key` is not acceptable for the reason given.
    pub(super) fn refuse(&mut self, key: &'static str, reason: &str) {
        self.faults.push((self.line_of_key(key), format!("{} {key} {reason}", self.title)));
    }

    /// Reports that `key` is missing.
    pub(super) fn missing(&mut self, key: &'static str, allowed: &str) {
        self.faults.push((self.line, format!("{} {key} is missing: expected {allowed}", self.title)));
    }

    /// Reports what was not asked for and hands all faults to `document`.
    pub(super) fn end(mut self, document: &mut Document<'_>) {
        for key in self.table.keys() {
            let line = line_of(self.text, key.span().start);
            let fault =
                format!("{} {}: unknown key{}", self.title, key.get_ref(), suggestion(key.get_ref(), &self.known));
            self.faults.push((line, fault));
        }
        document.faults.append(&mut self.faults);
    }

    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.remove(key)
    }

    fn or_fault<T>(&mut self, parsed: Option<T>, key: &str, value: &Spanned<DeValue<'a>>, allowed: &str) -> Option<T> {
        if parsed.is_none() {
            let line = line_of(self.text, value.span().start);
            let written: Cow<'_, str> = self.text.get(value.span()).map_or("?".into(), one_line);
            self.faults.push((line, format!("{} {key} = {written}: expected {allowed}", self.title)));
        }
        parsed
    }
}

fn of_text_or_number<T: FromStr>(value: &DeValue<'_>) -> Option<T> {
    match value.as_integer() {
        Some(number) if number.radix() == 10 => number.as_str().parse().ok(),
        _ => value.as_str()?.parse().ok(),
    }
}

/// The number of the line that holds byte `offset`, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains('\n') { text.split_whitespace().collect::<Vec<_>>().join(" ").into() } else { text.into() }
}

/// `; did you mean X?` if some key is near enough, else what there is.
pub(super) fn suggestion(written: &str, known: &[impl Display + AsRef<str>]) -> String {
    let nearest = known.iter().map(|key| (distance(written, key.as_ref()), key)).min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((distance, key)) if distance <= 1 + written.len() / 4 => format!("; did you mean {key}?"),
        _ => {
            let names: Vec<_> = known.iter().map(ToString::to_string).collect();
            format!("; known are {}", names.join(", "))
        }
    }
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
