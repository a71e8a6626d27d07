//! What to know about a scenario before its figures are believed.

use crate::scenario::{Flow, Scenario};

/// Sentences about flows whose controller and rate policy do not go together ([`session::rate::advice`]),
/// each once, by the names of the flows that it is about.
pub fn warnings(scenario: &Scenario) -> Vec<String> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for flow in scenario.flows.iter().filter(|flow| flow.video().is_some()) {
        let Some(text) = advice(flow) else { continue };
        match found.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(&flow.name),
            None => found.push((text, vec![&flow.name])),
        }
    }
    found.into_iter().map(|(text, names)| format!("{}: {text}", names.join(", "))).collect()
}

fn advice(flow: &Flow) -> Option<String> {
    let choice = flow.choice();
    session::rate::advice(&choice.controller.parse().ok()?, &choice.rate.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flows: &str) -> Vec<String> {
        let text = format!("duration = \"1s\"\n[link]\ndelay = \"20ms\"\n{flows}");
        warnings(&Scenario::parse(&text, "test.toml".as_ref()).unwrap())
    }

    #[test]
    fn flows_are_named_and_a_sentence_stands_once() {
        let flows = "[[flow]]\nname = \"a\"\ncc = \"copa\"\nrate = \"vidaptive\"\n[[flow]]\nname = \"b\"\ncc = \"copa\"\nrate = \"vidaptive\"\n\
                     [[flow]]\nname = \"c\"\ncc = \"sqp\"\n";
        let [warning]: [String; 1] = of(flows).try_into().unwrap();
        assert!(
            warning
                .starts_with("a, b: copa fills its window, so packets always wait a little, and vidaptive"),
            "{warning}"
        );
    }

    #[test]
    fn what_goes_together_and_what_has_no_policy_is_not_warned_of() {
        assert_eq!(of("[[flow]]\ncc = \"sqp\"\n[[flow]]\ncc = \"copa\"\nsource = \"backlog\"\n"), [""; 0]);
    }
}
