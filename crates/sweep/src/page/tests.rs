use std::path::Path;

use lab::scenario::Scenario;

use super::*;
use crate::axis::Axis;
use crate::groups::groups;
use crate::plan::Plan;
use crate::run::run_one;

fn table(axes: Vec<Axis>, seeds: &[u64]) -> Table {
    let text = "name = \"a<b\"\nduration = \"1s\"\n[link]\nrate = \"2mbit\"\ndelay = \"20ms\"\nloss = \"1%\"\n\
                [[flow]]\ncc = \"sqp\"\n";
    let base = Scenario::parse(text, Path::new("base.toml")).unwrap();
    let plan = Plan::new(&base, axes, seeds.to_vec()).unwrap();
    let runs = (0..plan.len()).map(|index| run_one(&plan, index, "c").unwrap());
    Table::of(&plan, "c", runs).unwrap()
}

fn count(page: &str, what: &str) -> usize {
    page.matches(what).count()
}

#[test]
fn a_page_draws_every_setting() {
    let axes = vec![
        Axis::new("link.rate", ["1mbit", "2mbit"]),
        Axis::new("flow[1].cc", ["sqp", "gcc"]),
        Axis::new("link.queue", ["droptail:100ms", "codel"]),
    ];
    let table = table(axes, &[1, 2, 3]);
    let groups = groups(&table);
    let page = render(&table, &groups);
    assert_eq!(page, render(&table, &groups));
    assert!(page.contains("Sweep of a&lt;b") && !page.contains("a<b"));
    // Of packets and of frames: an ellipse for each of the eight settings, a dot for each of the 24 runs.
    assert_eq!((count(&page, "<ellipse"), count(&page, "class=\"seed\"")), (16, 48));
    // One row of the table a setting, one panel a queue.
    assert_eq!(count(&page, "<tbody><tr>") + count(&page, "</tr><tr>"), 8);
    let panels = count(&page, "<h4>link.queue codel</h4>");
    assert!(panels >= 3 && panels == count(&page, "<h4>link.queue droptail:100ms</h4>"), "{panels}");
    assert!(page.contains("seeds</b>1 to 3") && page.contains(" ± "));
}

#[test]
fn one_run_has_neither_ellipse_nor_interval() {
    let table = table(Vec::new(), &[4]);
    let page = render(&table, &groups(&table));
    assert_eq!((count(&page, "<ellipse"), count(&page, "class=\"bar\""), count(&page, " ± ")), (0, 0, 0));
    assert_eq!(count(&page, "class=\"point\" cx"), 4, "two charts, each with a legend");
}

#[test]
fn seeds_are_listed_as_people_write_them() {
    assert_eq!(list(&[1, 2, 3]), "1 to 3");
    assert_eq!(list(&[3, 7]), "3, 7");
    assert_eq!(list(&[5]), "5");
}

#[test]
fn settings_in_which_seeds_make_no_difference_are_named() {
    let [some, none] = [&["", "1%"][..], &["1%"]].map(|losses| {
        let table = table(vec![Axis::new("link.loss", losses.iter().copied())], &[1, 2]);
        render(&table, &groups(&table))
    });
    let note = "<b>Note.</b> Seeds make no difference in 1 of 2 settings (link.loss=): all 2 runs";
    assert_eq!((count(&some, note), count(&none, "Seeds make no difference")), (1, 0));
}
