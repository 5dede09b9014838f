//! The text format of Prometheus (version 0.0.4), for scrapers that do not ask for OpenMetrics, and for `promtool check metrics`.

use std::collections::BTreeMap;

/// The same metrics as `text`, which is OpenMetrics. The format knows no units and no info metrics, and the suffix of a counter's
/// samples belongs to its name.
pub(super) fn of_open_metrics(text: &str) -> String {
    let kinds: BTreeMap<_, _> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        let described =
            ["# HELP ", "# TYPE "].iter().find_map(|word| Some((word, line.strip_prefix(word)?.split_once(' ')?)));
        let Some((word, (name, rest))) = described else {
            if !line.starts_with('#') {
                plain.push_str(line);
                plain.push('\n');
            }
            continue;
        };
        let (suffix, kind) = match kinds.get(name).copied().unwrap_or("untyped") {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            kind => ("", kind),
        };
        let rest = if *word == "# TYPE " { kind } else { rest };
        plain.extend([*word, name, suffix, " ", rest, "\n"]);
    }
    plain
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_and_infos_have_their_suffix_in_their_names_and_units_are_left_out() {
        let text = "# HELP a_bytes Some bytes.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total{x=\"1\"} 2\n\
                    # HELP b_build The build.\n# TYPE b_build info\nb_build_info{version=\"1\"} 1\n\
                    # HELP c Now.\n# TYPE c gauge\nc 3\n# EOF\n";
        let plain = "# HELP a_bytes_total Some bytes.\n# TYPE a_bytes_total counter\na_bytes_total{x=\"1\"} 2\n\
                     # HELP b_build_info The build.\n# TYPE b_build_info gauge\nb_build_info{version=\"1\"} 1\n\
                     # HELP c Now.\n# TYPE c gauge\nc 3\n";
        assert_eq!(super::of_open_metrics(text), plain);
    }
}
