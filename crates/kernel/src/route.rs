//! One route as `ip` prints and takes it, so that it can be put back as it was.

use crate::Error;
use crate::program;
use crate::routes::ip;
use std::net::IpAddr;

/// A route in the network namespace of the calling thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    is_ipv6: bool,
    /// `default via 192.0.2.1 dev eth0 metric 100`
    words: Vec<String>,
}

/// What `ip` prints of a route's state and does not take as part of a route.
const STATES: [&str; 10] = [
    "linkdown",
    "dead",
    "offload",
    "rt_offload",
    "trap",
    "rt_trap",
    "offload_failed",
    "rt_offload_failed",
    "unresolved",
    "\\",
];

impl Route {
    /// Reads what `ip route show` printed in one line.
    pub fn parse(line: &str, is_ipv6: bool) -> Self {
        let words = line.split_whitespace().filter(|word| !STATES.contains(word));
        let mut words: Vec<_> = words.map(str::to_owned).collect();
        // `expires 1790sec` is taken as `expires 1790`.
        if let Some(at) = words.iter().position(|word| word == "expires")
            && let Some(time) = words.get_mut(at + 1)
        {
            *time = time.trim_end_matches("sec").to_owned();
        }
        Self { is_ipv6, words }
    }

    /// The route that packets to `address` take; `None` if there is none.
    ///
    /// # Errors
    /// If `ip` is not installed or fails.
    pub fn towards(address: IpAddr) -> Result<Option<Self>, Error> {
        let is_ipv6 = address.is_ipv6();
        match show(is_ipv6, &format!("get fibmatch {address}")) {
            Ok(lines) => Ok(lines.lines().next().map(|line| Self::parse(line, is_ipv6))),
            Err(Error::Failed { source, .. }) if source.to_string().contains("unreachable") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The route to exactly `destination` (a prefix, or `default`) that is used: the one of least metric.
    ///
    /// # Errors
    /// If `ip` is not installed or fails.
    pub fn exactly(destination: &str, is_ipv6: bool) -> Result<Option<Self>, Error> {
        let query = if destination == "default" { "show default" } else { &format!("show exact {destination}") };
        let lines = show(is_ipv6, query)?;
        let routes = lines.lines().map(|line| Self::parse(line, is_ipv6));
        Ok(routes.min_by_key(|route| route.attribute("metric").and_then(|metric| metric.parse::<u64>().ok())))
    }

    /// Where it leads: a prefix, or `default`.
    pub fn destination(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The interface that it leaves by; `None` if it has several next hops.
    pub fn device(&self) -> Option<&str> {
        if self.words.iter().any(|word| word == "nexthop") { None } else { self.attribute("dev") }
    }

    /// The value after the word `key`.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.place_of(key).map(|at| self.words[at].as_str())
    }

    /// Where the value of `key` is: after the word itself, and after `lock` where that follows it.
    fn place_of(&self, key: &str) -> Option<usize> {
        let after = 2 + self.words.iter().skip(1).position(|word| word == key)?;
        let at = if self.words.get(after).is_some_and(|word| word == "lock") { after + 1 } else { after };
        (at < self.words.len()).then_some(at)
    }

    /// This route with `key value` in place of what it had under `key`.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Self {
        let mut words = self.words.clone();
        match self.place_of(key) {
            Some(at) => words[at] = value.to_owned(),
            None => {
                // What belongs to the whole route comes before its next hops.
                let end = words.iter().position(|word| word == "nexthop").unwrap_or(words.len());
                words.splice(end..end, [key.to_owned(), value.to_owned()]);
            }
        }
        Self { is_ipv6: self.is_ipv6, words }
    }

    /// A route to `destination` by the same next hop.
    #[must_use]
    pub fn leading_to(&self, destination: &str) -> Self {
        let mut words = self.words.clone();
        if let Some(first) = words.first_mut() {
            *first = destination.to_owned();
        }
        Self { is_ipv6: self.is_ipv6, words }
    }

    /// Whether it is a route of IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.is_ipv6
    }

    /// Puts the route in place of the one to the same destination with the same metric, if there is one.
    ///
    /// # Errors
    /// [`Error::Missing`] if `ip` is not installed or the process may not change routes; if `ip` refuses.
    pub fn replace(&self) -> Result<(), Error> {
        ip(&format!("{} route replace {self}", family(self.is_ipv6)))
    }

    /// Takes the route away.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn delete(&self) -> Result<(), Error> {
        ip(&format!("{} route delete {self}", family(self.is_ipv6)))
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

fn family(is_ipv6: bool) -> &'static str {
    if is_ipv6 { "-6" } else { "-4" }
}

/// What `ip route QUERY` prints, a line for each route.
fn show(is_ipv6: bool, query: &str) -> Result<String, Error> {
    let words = [family(is_ipv6), "-oneline", "route"].into_iter().chain(query.split_whitespace());
    let output = program::run("ip", "iproute2", words)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_added_and_replaced() {
        let route = Route::parse("default via 192.0.2.1 dev eth0 proto dhcp metric 100 linkdown ", false);
        assert_eq!(route.to_string(), "default via 192.0.2.1 dev eth0 proto dhcp metric 100");
        assert_eq!((route.device(), route.attribute("metric")), (Some("eth0"), Some("100")));
        let tuned = route.with("initcwnd", "40");
        assert_eq!(tuned.to_string(), "default via 192.0.2.1 dev eth0 proto dhcp metric 100 initcwnd 40");
        assert_eq!(tuned.with("initcwnd", "10").attribute("initcwnd"), Some("10"));
        let locked = Route::parse("default dev eth0 congctl lock cubic", false);
        assert_eq!(locked.with("congctl", "bbr").to_string(), "default dev eth0 congctl lock bbr");
        assert_eq!(route.leading_to("198.18.0.0/24").destination(), "198.18.0.0/24");
    }

    #[test]
    fn several_next_hops_come_last_and_have_no_one_device() {
        let line =
            "default proto static \\\tnexthop via 192.0.2.1 dev a weight 1 \\\tnexthop via 192.0.2.2 dev b weight 1";
        let route = Route::parse(line, false);
        assert_eq!(route.device(), None);
        assert!(route.with("initcwnd", "40").to_string().starts_with("default proto static initcwnd 40 nexthop via"));
    }

    #[test]
    fn what_remains_of_a_lifetime_is_taken_as_printed() {
        let route = Route::parse("default via fe80::1 dev eth0 proto ra metric 100 expires 1790sec pref medium", true);
        assert_eq!(route.attribute("expires"), Some("1790"));
    }
}
