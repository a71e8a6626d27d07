//! Where seeds make no difference, so that nobody takes an interval of 0 for precision.

use std::collections::BTreeSet;

use crate::groups::Group;
use crate::plan::Plan;
use crate::table::Table;

/// How many settings are named one by one.
const NAMED: usize = 3;

/// Says in which settings every flow has the same figures under all seeds, and why; none if there is no such
/// setting, or a single seed.
pub fn seeds_note(table: &Table, groups: &[Group]) -> Option<String> {
    let plan = table.plan();
    let same = indifferent(groups);
    let (some, all) = (same.len(), plan.settings_count());
    let place = match some {
        0 => return None,
        _ if some == all => String::new(),
        _ => format!(" in {some} of {all} settings ({})", named(plan, &same)),
    };
    Some(format!(
        "Seeds make no difference{place}: all {} runs have the same figures, for nothing random came to bear on them \
         (loss, jitter, an encoder's noise, cross traffic and the like). There ± 0 is not precision, and one seed \
         would do.",
        plan.seeds().len()
    ))
}

/// The settings no flow of which differs from seed to seed, in order.
fn indifferent(groups: &[Group]) -> Vec<usize> {
    let settings = groups.chunk_by(|a, b| a.setting == b.setting);
    let same = settings.filter(|flows| flows.iter().all(|group| group.seeds_matter() == Some(false)));
    same.map(|flows| flows[0].setting).collect()
}

/// Settings by what they have in common, where they are all that have it: `link.loss=`; else the first few,
/// one by one.
fn named(plan: &Plan, settings: &[usize]) -> String {
    let places: Vec<Vec<usize>> = settings.iter().map(|&setting| plan.places(setting)).collect();
    let taken = |axis: usize| places.iter().map(|places| places[axis]).collect::<BTreeSet<usize>>();
    let taken: Vec<BTreeSet<usize>> = (0..plan.axes().len()).map(taken).collect();
    if taken.iter().map(BTreeSet::len).product::<usize>() == settings.len() {
        let limited = plan.axes().iter().zip(&taken).filter(|(axis, taken)| taken.len() < axis.values.len());
        let pairs = limited.map(|(axis, taken)| {
            let values: Vec<&str> = taken.iter().map(|&place| axis.values[place].as_str()).collect();
            format!("{}={}", axis.field, values.join(","))
        });
        return pairs.collect::<Vec<_>>().join(" ");
    }
    let mut names: Vec<String> = settings.iter().take(NAMED).map(|&setting| plan.name(setting)).collect();
    if let more @ 1.. = settings.len() - names.len() {
        names.push(format!("and {more} more"));
    }
    names.join("; ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lab::scenario::Scenario;

    use super::*;
    use crate::axis::Axis;
    use crate::groups::{groups, groups_json};
    use crate::run::run_one;

    fn plan(axes: Vec<Axis>, seeds: &[u64]) -> Plan {
        let text = "duration = \"2s\"\n[link]\nrate = \"2mbit\"\ndelay = \"20ms\"\n[[flow]]\ncc = \"sqp\"\n\
                    [[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\n";
        let base = Scenario::parse(text, Path::new("base.toml")).unwrap();
        Plan::new(&base, axes, seeds.to_vec()).unwrap()
    }

    fn swept(axes: Vec<Axis>, seeds: &[u64]) -> (Table, Vec<Group>) {
        let plan = plan(axes, seeds);
        let runs = (0..plan.len()).map(|index| run_one(&plan, index, "c").unwrap());
        let table = Table::of(&plan, "c", runs).unwrap();
        let groups = groups(&table);
        (table, groups)
    }

    fn matter(table: &Table, groups: &[Group]) -> Vec<serde_json::Value> {
        let json = groups_json(table, groups);
        json["groups"].as_array().unwrap().iter().map(|group| group["seeds_matter"].clone()).collect()
    }

    #[test]
    fn settings_with_nothing_random_are_named() {
        let axes = vec![Axis::new("link.rate", ["1mbit", "2mbit"]), Axis::new("link.loss", ["", "5%"])];
        let (table, groups) = swept(axes, &[1, 2, 3]);
        let note = seeds_note(&table, &groups).unwrap();
        assert!(
            note.starts_with("Seeds make no difference in 2 of 4 settings (link.loss=): all 3 runs"),
            "{note}"
        );
        // Two flows a setting.
        assert_eq!(matter(&table, &groups), [false, false, true, true].repeat(2));
        let quiet = groups.iter().filter(|group| group.setting % 2 == 0);
        for estimate in
            quiet.flat_map(|group| ["throughput_bps", "owd_ms_mean"].map(|name| group.figure(name)))
        {
            assert!(estimate.mean.is_some() && estimate.ci95 == Some(0.0), "{estimate:?}");
        }
    }

    #[test]
    fn nothing_is_said_of_one_seed_or_where_all_differ() {
        let (table, groups) = swept(vec![Axis::new("link.loss", ["5%"])], &[1, 2]);
        assert_eq!((seeds_note(&table, &groups), matter(&table, &groups)), (None, vec![true.into(); 2]));
        let (table, groups) = swept(Vec::new(), &[1]);
        assert_eq!((seeds_note(&table, &groups), matter(&table, &groups)), (None, vec![().into(); 2]));
        let (table, groups) = swept(Vec::new(), &[1, 2]);
        assert!(seeds_note(&table, &groups).unwrap().starts_with("Seeds make no difference: all 2 runs"));
    }

    #[test]
    fn settings_are_named_by_what_they_share_or_one_by_one() {
        let rates = Axis::new("link.rate", ["1mbit", "2mbit", "3mbit"]);
        let plan = plan(vec![rates, Axis::new("flow[1].cc", ["sqp", "gcc"])], &[1]);
        assert_eq!(named(&plan, &[0, 4]), "link.rate=1mbit,3mbit flow[1].cc=sqp");
        assert_eq!(named(&plan, &[1, 3, 5]), "flow[1].cc=gcc");
        let (slow, fast) = ("link.rate=1mbit flow[1].cc=sqp", "link.rate=2mbit flow[1].cc=gcc");
        assert_eq!(named(&plan, &[0, 3]), format!("{slow}; {fast}"));
        let several = format!("{slow}; link.rate=1mbit flow[1].cc=gcc; {fast}; and 2 more");
        assert_eq!(named(&plan, &[0, 1, 3, 4, 5]), several);
    }
}
