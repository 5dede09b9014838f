//! Traces as text: one record a line, `#` begins a comment, blank lines are skipped.

use crate::ConfigError;
use units::Duration;

/// Puts what the file called `file` holds, if there is one, into `values`, which stand in the file's place. `key` is that of the file.
///
/// # Errors
/// Names the key, the file and the line that is wrong, or that there are values already.
pub(crate) fn read_file<T>(
    key: &'static str,
    file: &mut Option<String>,
    values: &mut Vec<T>,
    read: impl FnOnce(&str) -> Result<String, String>,
    parse: impl FnOnce(&str) -> Result<Vec<T>, TraceError>,
) -> Result<(), ConfigError> {
    let Some(name) = file.take() else { return Ok(()) };
    let error = |problem: String| ConfigError::new(key, &format!("{name}: {problem}"));
    if !values.is_empty() {
        let problem =
            "there are values beside the file: keep one of the two (an override with `[]` takes the other away)";
        return Err(error(problem.to_owned()));
    }
    let text = read(&name).map_err(error)?;
    *values = parse(&text).map_err(|problem| error(problem.to_string()))?;
    Ok(())
}

/// A trace that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line is not what it should be.
    #[error("line {line}: {problem}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it, and what belongs there.
        problem: String,
    },
    /// There is no record at all.
    #[error("it holds no record")]
    Empty,
}

/// Reads every record of `text` with `read`, which sees the record before, too.
fn records<T: Copy>(
    text: &str,
    mut read: impl FnMut(&str, Option<T>) -> Result<T, String>,
) -> Result<Vec<T>, TraceError> {
    let mut records = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let record = line.split('#').next().unwrap_or_default().trim();
        if record.is_empty() {
            continue;
        }
        let read = read(record, records.last().copied());
        records.push(read.map_err(|problem| TraceError::Line { line: index + 1, problem })?);
    }
    if records.is_empty() { Err(TraceError::Empty) } else { Ok(records) }
}

/// Reads a trace of values that hold from a time on: lines such as `12.5s 3Mbit/s` (or `12.5s,3Mbit/s`), times rising.
pub(crate) fn steps<T>(text: &str) -> Result<Vec<(Duration, T)>, TraceError>
where
    T: std::str::FromStr<Err: std::fmt::Display> + Copy,
{
    records(text, |record, before: Option<(Duration, T)>| {
        let (time, value) = record
            .split_once([',', ' ', '\t'])
            .ok_or_else(|| format!("`{record}` is not a time and a value, as in `12.5s 3Mbit/s`"))?;
        let time: Duration = time.parse().map_err(|error: units::QuantityError| error.to_string())?;
        let value = value.trim().parse().map_err(|error: T::Err| error.to_string())?;
        match before {
            Some((before, _)) if time <= before => Err(format!("{time} does not come after {before}")),
            _ => Ok((time, value)),
        }
    })
}

/// Reads whole numbers that do not fall; `22 x19` is 19 times 22.
pub(crate) fn repeated_numbers(text: &str) -> Result<Vec<u64>, TraceError> {
    let records = records(text, |record, before: Option<(u64, u32)>| {
        let (number, times) =
            record.split_once(char::is_whitespace).map_or((record, "x1"), |(n, times)| (n, times.trim()));
        let number = number_after(number, before.map(|(number, _)| number))?;
        let times = times.strip_prefix('x').and_then(|times| times.parse().ok()).filter(|times| *times <= MOST_TIMES);
        let times = times
            .ok_or_else(|| format!("`{record}` is not a number and how often, at most {MOST_TIMES}, as in `22 x19`"))?;
        Ok((number, times))
    })?;
    Ok(records.into_iter().flat_map(|(number, times)| std::iter::repeat_n(number, times as usize)).collect())
}

/// A line stands for at most so many numbers, so that a short file is no large trace.
const MOST_TIMES: u32 = 10_000;

/// Reads whole numbers that do not fall.
pub(crate) fn numbers(text: &str) -> Result<Vec<u64>, TraceError> {
    records(text, number_after)
}

fn number_after(record: &str, before: Option<u64>) -> Result<u64, String> {
    let number = record.parse().map_err(|_| format!("`{record}` is not a whole number"))?;
    match before {
        Some(before) if number < before => Err(format!("{number} comes after {before}: numbers must not fall")),
        _ => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    #[test]
    fn reads_times_and_values_with_their_units() {
        let text = "# a fade\n0s 6Mbit/s\n\n10s, 3Mbit/s  # rain\n12.5s\t6Mbit/s\n";
        let at = |millis, mbit: u64| (Duration::from_millis(millis), Rate::from_bps(mbit * 1_000_000));
        assert_eq!(steps(text), Ok(vec![at(0, 6), at(10_000, 3), at(12_500, 6)]));
    }

    #[test]
    fn names_the_line_that_is_wrong_and_says_how_to_write_it() {
        for (text, line, hint) in [
            ("0s 6Mbit/s\n1 3Mbit/s", 2, "550ms"),
            ("0s 6", 1, "6Mbit/s"),
            ("0s", 1, "12.5s 3Mbit/s"),
            ("# x\n1s 6Mbit/s\n1s 5Mbit/s", 3, "after"),
        ] {
            let error = steps::<Rate>(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("line {line}: ")) && error.contains(hint), "{error}");
        }
        assert_eq!(steps::<Rate>("# nothing\n"), Err(TraceError::Empty));
        assert_eq!(numbers("1\n1\n5"), Ok(vec![1, 1, 5]));
        assert!(numbers("1\n-1").expect_err("negative").to_string().contains("line 2"));
        assert!(numbers("3\n2").expect_err("falls").to_string().contains("line 2"));
    }

    #[test]
    fn a_number_may_stand_for_many() {
        assert_eq!(repeated_numbers("1\n4 x3\n5\tx1"), Ok(vec![1, 4, 4, 4, 5]));
        for (text, hint) in [("4 3", "22 x19"), ("4 x", "22 x19"), ("4 x10001", "10000"), ("4 x2\n3", "fall")] {
            assert!(repeated_numbers(text).expect_err(text).to_string().contains(hint), "{text}");
        }
    }
}
