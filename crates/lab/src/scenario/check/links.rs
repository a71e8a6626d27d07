//! What links must satisfy together, and paths over them.

use super::super::error::Problem;
use super::super::{Link, Scenario};
use super::{Checked, check_link, require};

/// Links of a world are 32,768, those of each flow included; a path of more than these is no network.
const MOST_LINKS: usize = 100;

/// Checks the links, the way back, and every path.
pub(super) fn check(scenario: &Scenario) -> Checked {
    let links = &scenario.link;
    let count = links.iter().len();
    require(count <= MOST_LINKS, "link", format!("{count} of them are more than {MOST_LINKS}"))?;
    for (i, link) in links.iter().enumerate() {
        let at = links.field(i);
        check_link(link, &at)?;
        require(link.delay.is_some(), &at, "missing field `delay` (one way, such as \"20ms\")")?;
        check_name(link, links.iter().take(i), links.are_several(), &at)?;
    }
    if let Some(feedback) = &scenario.feedback {
        check_link(feedback, "feedback")?;
        let unnamed = "the way back is no part of a `path`, and needs no name: remove it";
        require(feedback.name.is_empty(), "feedback.name", unnamed)?;
    }
    let flows = scenario.flows.iter().map(|flow| flow.path.as_deref());
    check_paths(scenario, "flow", flows)?;
    check_paths(scenario, "cross", scenario.cross.iter().map(|cross| cross.path.as_deref()))
}

fn check_name<'a>(
    link: &Link,
    mut before: impl Iterator<Item = &'a Link>,
    several: bool,
    at: &str,
) -> Checked {
    let missing = "missing field `name`: of several links each has one, such as \"ab\", for `path` to name";
    require(!several || !link.name.is_empty(), at, missing)?;
    let twin = before.any(|other| other.name == link.name);
    require(!twin, format!("{at}.name"), format!("another link is called `{}` too", link.name))
}

fn check_paths<'a>(
    scenario: &Scenario,
    table: &str,
    paths: impl Iterator<Item = Option<&'a [String]>>,
) -> Checked {
    let names: Vec<&str> = scenario.link.iter().map(|link| link.name.as_str()).collect();
    for (i, path) in paths.enumerate() {
        let Some(path) = path else { continue };
        check_path(path, &names, &format!("{table}[{}].path", i + 1))?;
    }
    Ok(())
}

fn check_path(path: &[String], names: &[&str], at: &str) -> Checked {
    let unnamed = "the only link has no name: remove `path`, or give the link a `name`";
    require(names != [""], at, unnamed)?;
    let none = format!("it passes no link: name some of {}, or leave it out for all in order", list(names));
    require(!path.is_empty(), at, none)?;
    for (i, name) in path.iter().enumerate() {
        if !names.contains(&name.as_str()) {
            let what = format!("no link is called `{name}`; {}", units::instead(name, names));
            return Err(Problem::new(at, what));
        }
        let twice = format!("it passes `{name}` twice; a packet passes a link once");
        require(!path[..i].contains(name), at, twice)?;
    }
    Ok(())
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::scenario::Scenario;

    const LOT: &str = "\
duration = \"2s\"

[[link]]
name = \"ab\"
rate = \"2mbit\"
delay = \"10ms\"

[[link]]
name = \"cd\"
rate = \"1mbit\"
delay = \"20ms\"

[[flow]]
cc = \"cubic\"
source = \"tcp\"

[[flow]]
cc = \"cubic\"
source = \"tcp\"
path = [\"cd\"]

[[cross]]
kind = \"cbr\"
rate = \"100kbit\"
path = [\"ab\"]
";

    fn parse(text: &str) -> Result<Scenario, String> {
        Scenario::parse(text, Path::new("x.toml")).map_err(|error| error.to_string())
    }

    /// The error of the scenario with one piece of its text replaced.
    fn with(old: &str, new: &str) -> String {
        assert_eq!(LOT.matches(old).count(), 1, "{old}");
        parse(&LOT.replace(old, new)).expect_err("should be refused")
    }

    #[test]
    fn a_path_names_links_and_is_all_of_them_by_default() {
        let scenario = parse(LOT).unwrap();
        assert_eq!(scenario.link.names(), ["ab", "cd"]);
        assert_eq!([scenario.path_of(0), scenario.path_of(1)], [vec![0, 1], vec![1]]);
        assert_eq!(scenario.link.on(scenario.cross[0].path.as_deref()), [0]);
        let backwards = parse(&LOT.replace("path = [\"cd\"]", "path = [\"cd\", \"ab\"]")).unwrap();
        assert_eq!(backwards.path_of(1), [1, 0]);
    }

    #[test]
    fn errors_name_line_field_value_and_remedy() {
        assert_eq!(
            with("[\"cd\"]", "[\"xy\"]"),
            "x.toml:20: flow[2].path: no link is called `xy`; there are ab, cd"
        );
        assert_eq!(
            with("path = [\"ab\"]", "path = [\"abb\"]"),
            "x.toml:25: cross[1].path: no link is called `abb`; did you mean `ab`?"
        );
        assert_eq!(
            with("[\"cd\"]", "[\"cd\", \"cd\"]"),
            "x.toml:20: flow[2].path: it passes `cd` twice; a packet passes a link once"
        );
        assert_eq!(
            with("[\"cd\"]", "[]"),
            "x.toml:20: flow[2].path: it passes no link: name some of `ab`, `cd`, or leave it out for all in order"
        );
        assert_eq!(
            with("[\"cd\"]", "\"cd\""),
            "x.toml:20: flow[2].path: invalid type: string \"cd\", expected a list in brackets"
        );
        assert_eq!(
            with("name = \"cd\"\n", ""),
            "x.toml:8: link[2]: missing field `name`: of several links each has one, such as \"ab\", for `path` to name"
        );
        assert_eq!(
            with("name = \"cd\"", "name = \"ab\""),
            "x.toml:9: link[2].name: another link is called `ab` too"
        );
        assert_eq!(
            with("delay = \"20ms\"\n", ""),
            "x.toml:8: link[2]: missing field `delay` (one way, such as \"20ms\")"
        );
        assert_eq!(
            with("rate = \"1mbit\"", "rate = \"1mbot\""),
            "x.toml:10: link[2].rate: `1mbot` is not a rate such as 800kbit, 20mbit or 1.5gbit"
        );
        assert_eq!(
            with("rate = \"1mbit\"", "rat = \"1mbit\""),
            "x.toml:10: link[2].rat: unknown field `rat`; did you mean `rate`?"
        );
        assert_eq!(
            with("[[cross]]", "[feedback]\nname = \"back\"\n[[cross]]"),
            "x.toml:23: feedback.name: the way back is no part of a `path`, and needs no name: remove it"
        );
    }

    #[test]
    fn a_single_link_needs_no_name_and_says_so() {
        let single = "duration = \"2s\"\n[link]\ndelay = \"10ms\"\n[[flow]]\ncc = \"sqp\"\npath = [\"a\"]\n";
        assert_eq!(
            parse(single).unwrap_err(),
            "x.toml:6: flow[1].path: the only link has no name: remove `path`, or give the link a `name`"
        );
        let named = parse(&single.replace("delay", "name = \"a\"\ndelay")).unwrap();
        assert_eq!((named.path_of(0), named.link.names().len()), (vec![0], 0));
        let empty = parse("duration = \"2s\"\nlink = []\n[[flow]]\ncc = \"sqp\"\n").unwrap_err();
        assert_eq!(empty, "x.toml:2: link: an empty list; a scenario needs a [link], or several [[link]]");
        let odd = parse("duration = \"2s\"\nlink = 3\n[[flow]]\ncc = \"sqp\"\n").unwrap_err();
        let expected =
            "x.toml:2: link: invalid type: integer `3`, expected a table [link], or several tables [[link]]";
        assert_eq!(odd, expected);
    }

    #[test]
    fn what_needs_one_link_refuses_several() {
        let refused = parse(LOT).unwrap().require_one_link("a search").unwrap_err().to_string();
        assert_eq!(
            refused,
            "x.toml:8: link[2]: a search knows a single bottleneck, and there are 2 links: leave one, and no `path`"
        );
    }

    #[test]
    fn there_are_not_any_number_of_links() {
        let links: String =
            (0..101).map(|i| format!("[[link]]\nname = \"l{i}\"\ndelay = \"1ms\"\n")).collect();
        let many = parse(&format!("duration = \"2s\"\n{links}[[flow]]\ncc = \"sqp\"\n")).unwrap_err();
        assert_eq!(many, "x.toml:2: link: 101 of them are more than 100");
    }
}
