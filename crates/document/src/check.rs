//! Holds a document against the schema and reports everything that does not fit, each with what would.

use crate::fault::{Fault, cut, nearest, suggestion};
use crate::form::Form;
use crate::format::Schema;
use crate::origin::Origin;
use crate::quantity::Name;
use crate::tree::{Node, Value, item_name};

/// The faults of `node`, which `path` leads to, against `schema`. What is the same in `sound`, a value of the same place
/// without faults, has none.
pub fn check(schema: &Schema<'_>, node: &Node, sound: Option<&Node>, path: &mut Vec<String>, faults: &mut Vec<Fault>) {
    if sound.is_some_and(|sound| sound.is_same(node)) {
        return;
    }
    if schema.holds_changes() {
        if !matches!(node.value, Value::Table(_)) {
            faults.push(unexpected(schema, node, path, Some("expected a table of settings".to_owned())));
        }
        return;
    }
    if let Some(alternatives) = schema.alternatives() {
        return check_alternatives(schema, &alternatives, node, path, faults);
    }
    if !schema.takes(node) {
        let is_single = matches!(node.value, Value::Table(_)) && schema.holds_tables();
        let problem = is_single.then(|| format!("expected a list of tables: write [[{}]]", path.join(".")));
        return faults.push(unexpected(schema, node, path, problem));
    }
    match &node.value {
        Value::Table(_) => check_table(schema, node, sound, path, faults),
        Value::Array(_) => check_array(schema, node, sound, path, faults),
        _ => {
            if let Err(problem) = check_scalar(schema, &node.value) {
                faults.push(unexpected(schema, node, path, problem));
            }
        }
    }
}

/// One of several forms: the forms of the value's own type decide, so that faults are about what was meant.
fn check_alternatives(
    schema: &Schema<'_>,
    alternatives: &[Schema<'_>],
    node: &Node,
    path: &mut Vec<String>,
    faults: &mut Vec<Fault>,
) {
    let fitting: Vec<_> = alternatives.iter().filter(|alternative| alternative.takes(node)).collect();
    if let Value::Table(entries) = &node.value {
        let meant = entries.iter().find_map(|entry| fitting.iter().find(|form| form.property(&entry.key).is_some()));
        if let Some(meant) = meant {
            let others =
                |key: &str| meant.property(key).is_none() && fitting.iter().any(|form| form.property(key).is_some());
            if let Some(other) = entries.iter().find(|entry| others(&entry.key)) {
                let beside = entries.iter().find(|entry| meant.property(&entry.key).is_some());
                let beside = beside.map_or("the others", |entry| &*entry.key);
                let text = format!("{}: it cannot stand beside {beside}: keep one of them", shown(path, &other.key));
                return faults.push(Fault::at(other.key_origin.clone(), path, text));
            }
            return check(meant, node, None, path, faults);
        }
        if let (Some(entry), false) = (entries.first(), fitting.is_empty()) {
            let known = fitting.iter().flat_map(|form| form.keys());
            let text = format!("{}: unknown key{}", shown(path, &entry.key), suggestion(&entry.key, known));
            return faults.push(Fault::at(entry.key_origin.clone(), path, text));
        }
    }
    let mut attempts = fitting.iter().map(|form| {
        let mut found = Vec::new();
        check(form, node, None, path, &mut found);
        found
    });
    match fitting.len() {
        0 => faults.push(unexpected(schema, node, path, None)),
        // A text that is none of a few words may have been meant as one of the other forms.
        1 if fitting[0].constants().is_empty() => faults.extend(attempts.next().unwrap_or_default()),
        _ => {
            if !attempts.any(|found| found.is_empty()) {
                let constants: Vec<_> = fitting.iter().flat_map(|form| form.constants()).collect();
                let hint = node.text().map_or(String::new(), |written| {
                    form_meant(written, alternatives).unwrap_or_else(|| near(written, &constants))
                });
                faults.push(unexpected(schema, node, path, Some(format!("expected {}{hint}", schema.expected()))));
            }
        }
    }
}

/// How a value of another form is written that has been written as the text `written`: a number, or a table by its key.
fn form_meant(written: &str, alternatives: &[Schema<'_>]) -> Option<String> {
    let takes = |number| {
        let node = Node { origin: Origin::File(0), value: Value::Float(number) };
        alternatives.iter().any(|form| form.takes(&node))
    };
    if written.parse().is_ok_and(|number: f64| number.is_finite() && takes(number)) {
        return Some(format!("; a number is written without quotes: {written}"));
    }
    let is_key = alternatives.iter().any(|form| form.property(written).is_some());
    is_key.then(|| format!("; {written} is written as {{ {written} = {{ … }} }}"))
}

fn check_table(
    schema: &Schema<'_>,
    node: &Node,
    sound: Option<&Node>,
    path: &mut Vec<String>,
    faults: &mut Vec<Fault>,
) {
    for entry in node.entries() {
        let Some(property) = schema.property(&entry.key) else {
            let hint = nearest(&entry.key, schema.keys()).unwrap_or_else(|| elsewhere(schema, &entry.key));
            let text = format!("{}: unknown key{hint}", shown(path, &entry.key));
            faults.push(Fault::at(entry.key_origin.clone(), path, text));
            continue;
        };
        if schema.is_map() && entry.key.parse::<Name>().is_err() {
            let text = format!("{}: expected {}", shown(path, &entry.key), Name::EXPECTED);
            faults.push(Fault::at(entry.key_origin.clone(), path, text));
        }
        path.push(entry.key.to_string());
        check(&property, &entry.node, sound.and_then(|sound| sound.get(&entry.key)), path, faults);
        path.pop();
    }
    for key in schema.required() {
        if node.get(key).is_none() {
            check_missing(schema, key, node, path, faults);
        }
    }
}

/// `; it is a key of [X]` if other sections have `key`, else the keys that there are.
fn elsewhere(schema: &Schema<'_>, key: &str) -> String {
    match &*schema.sections_with(key) {
        [] => suggestion(key, schema.keys()),
        sections => format!("; it is a key of {}", sections.join(", ")),
    }
}

/// For a missing table, its required keys are reported.
fn check_missing(schema: &Schema<'_>, key: &str, node: &Node, path: &mut Vec<String>, faults: &mut Vec<Fault>) {
    let property = schema.property(key);
    path.push(key.to_owned());
    match property.filter(|property| property.required().next().is_some()) {
        Some(table) => {
            for key in table.required() {
                check_missing(&table, key, node, path, faults);
            }
        }
        None => {
            let expected = match property {
                Some(list) if list.holds_tables() => format!("at least one table headed [[{}]]", path.join(".")),
                Some(property) => property.expected(),
                None => String::new(),
            };
            let text = format!("{} is missing: expected {expected}", dotted(path));
            faults.push(Fault::at(node.origin.clone(), path, text));
        }
    }
    path.pop();
}

fn check_array(
    schema: &Schema<'_>,
    node: &Node,
    sound: Option<&Node>,
    path: &mut Vec<String>,
    faults: &mut Vec<Fault>,
) {
    let (least, most) = (schema.number("minItems"), schema.number("maxItems"));
    let items = node.items();
    let count = items.len() as f64;
    if least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most) {
        return faults.push(unexpected(schema, node, path, None));
    }
    for (at, item) in items.iter().enumerate() {
        let Some(form) = schema.item(at) else { continue };
        path.push(item_name(item, at));
        check(&form, item, sound.and_then(|sound| sound.items().get(at)), path, faults);
        path.pop();
    }
}

/// `Err(Some(why))` if it can be said better than by what was expected.
fn check_scalar(schema: &Schema<'_>, value: &Value) -> Result<(), Option<String>> {
    let number = match value {
        Value::Text(written) => {
            if let Some(result) = schema.check_form(written) {
                return result.map_err(Some);
            }
            let allowed = schema.constants();
            if allowed.is_empty() || allowed.contains(&written.as_str()) {
                return Ok(());
            }
            return Err(Some(format!("expected {}{}", schema.expected(), near(written, &allowed))));
        }
        Value::Integer(value) => *value as f64,
        Value::Float(value) => *value,
        _ => return Ok(()),
    };
    let below = schema.number("minimum").is_some_and(|least| number < least)
        || schema.number("exclusiveMinimum").is_some_and(|least| number <= least);
    let above = schema.number("maximum").is_some_and(|most| number > most);
    let other = schema.number("const").is_some_and(|only| number != only);
    if below || above || other { Err(None) } else { Ok(()) }
}

fn near(written: &str, allowed: &[&str]) -> String {
    nearest(written, allowed.iter().copied()).unwrap_or_default()
}

pub(crate) fn unexpected(schema: &Schema<'_>, node: &Node, path: &[String], problem: Option<String>) -> Fault {
    let problem = problem.unwrap_or_else(|| expected_of(schema));
    let key = dotted(path);
    let text = match &node.value {
        _ if schema.is_secret() => format!("{key} is malformed: {}", expected_of(schema)),
        Value::Table(_) if key.is_empty() => problem,
        value => format!("{key} = {value}: {problem}"),
    };
    Fault::at(node.origin.clone(), path, text)
}

fn expected_of(schema: &Schema<'_>) -> String {
    format!("expected {}", schema.expected())
}

/// The keys of a path as a fault shows them.
fn dotted(path: &[String]) -> String {
    path.iter().map(|key| cut(key)).collect::<Vec<_>>().join(".")
}

/// `link.sat.rate`.
pub fn shown(path: &[String], key: &str) -> String {
    path.iter().map(String::as_str).chain([key]).map(cut).collect::<Vec<_>>().join(".")
}
