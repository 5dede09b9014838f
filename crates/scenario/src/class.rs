//! Classes of flows, from the words of the format.

use crate::FlowClass;
use crate::format::gateway::Class;
use document::Node;
use document::{Fault, suggestion};

/// The classes `written` in their sections under `path`; `known` are the flows of the document, `groups` the names there
/// of each flow of the simulation.
///
/// # Errors
/// With each name that is there twice or not at all.
pub(crate) fn resolve<'a>(
    path: &str,
    written: impl Iterator<Item = (&'a Class, &'a Node)>,
    known: &[String],
    groups: &[String],
) -> Result<Vec<FlowClass>, Vec<Fault>> {
    let (mut classes, mut names, mut taken, mut faults) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (class, section) in written {
        let name = class.name.0.as_str();
        let mut fault =
            |node: &Node, text: String| faults.push(Fault::new(node.origin.clone(), format!("{path}.{name}{text}")));
        if names.contains(&name) {
            fault(section, ": there is another class of this name".to_owned());
        }
        names.push(name);
        for flow in section.get("flows").map_or(&[][..], Node::items) {
            let called = flow.text().unwrap_or_default();
            if !known.iter().any(|known| known == called) {
                let near = suggestion(called, known.iter().map(String::as_str));
                fault(flow, format!(".flows: there is no flow called {called}{near}"));
            } else if taken.contains(&called) {
                fault(flow, format!(".flows: {called} is there already, and a flow is of one class"));
            }
            taken.push(called);
        }
        let is_of_class = |group: &String| class.flows.iter().any(|flow| flow.0 == *group);
        let flows = groups.iter().enumerate().filter(|(_, group)| is_of_class(group)).map(|(number, _)| number);
        classes.push(FlowClass { flows: flows.collect(), settings: class.settings(classes.len()) });
    }
    if faults.is_empty() { Ok(classes) } else { Err(faults) }
}

impl Class {
    /// Its settings as class number `at`, from 0; number 0 of the transport is the class of all other flows.
    fn settings(&self, at: usize) -> satpep::Class {
        let plain = satpep::Class::DEFAULT;
        satpep::Class {
            id: (at + 1) as u8,
            priority: self.priority.unwrap_or_default(),
            weight: self.weight.unwrap_or(plain.weight),
            cap: self.cap.map(|cap| cap.0),
        }
    }
}
