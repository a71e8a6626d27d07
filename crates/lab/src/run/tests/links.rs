//! Several links.

use netsim::FlowStats;
use proptest::prelude::*;
use units::Rate;

use super::*;
use crate::collect::LinkRecord;

/// Two bottlenecks: the first flow passes both, the others one each.
fn lot(cc: &str, seconds: u32) -> String {
    let flow = |path: &str| format!("[[flow]]\ncc = \"{cc}\"\nsource = \"tcp\"\n{path}\n");
    format!(
        "duration = \"{seconds}s\"\n\
         [[link]]\nname = \"ab\"\nrate = \"10mbit\"\ndelay = \"10ms\"\nqueue = \"droptail:50p\"\n\
         [[link]]\nname = \"cd\"\nrate = \"10mbit\"\ndelay = \"10ms\"\nqueue = \"droptail:50p\"\n{}{}{}",
        flow(""),
        flow("path = [\"ab\"]"),
        flow("path = [\"cd\"]")
    )
}

fn ran(text: &str) -> Outcome {
    run(&scenario(text), &RunOptions::default()).unwrap()
}

#[test]
fn a_flow_meets_the_sum_of_delays_and_the_lower_of_rates() {
    let text = "duration = \"10s\"\nwarmup = \"2s\"\n\
                [[link]]\nname = \"fast\"\nrate = \"20mbit\"\ndelay = \"15ms\"\n\
                [[link]]\nname = \"slow\"\nrate = \"3mbit\"\ndelay = \"25ms\"\n\
                [[flow]]\ncc = \"cubic\"\nsource = \"tcp\"\n";
    let outcome = ran(text);
    let (flow, links) = (&outcome.summary.flows[0], &outcome.summary.links);
    assert!((2.8e6..3.01e6).contains(&flow.throughput_bps), "{}", flow.throughput_bps);
    // Both ways 40 ms, and what one packet takes to be sent: 0.6 and 4 ms, on the way back nothing.
    let least = outcome.record.flows[0].rtt.iter().map(|sample| sample.latest).min().unwrap();
    assert!((Span::from_millis(80)..Span::from_millis(86)).contains(&least), "{least}");
    let rates: Vec<_> = links.iter().map(|link| (link.name.as_str(), link.rate_bps)).collect();
    assert_eq!(rates, [("fast", Some(20e6)), ("slow", Some(3e6))]);
    let used = |index: usize| links[index].figures.utilization.unwrap();
    assert!(used(1) > 0.95 && (used(0) - 0.15).abs() < 0.01, "{links:?}");
    assert!(links[0].figures.dropped == 0 && links[1].figures.dropped > 0);
    assert_eq!(outcome.summary.link, links[0].figures);
}

#[test]
fn in_a_parking_lot_the_long_flow_gets_the_least() {
    for cc in ["newreno", "cubic"] {
        let outcome = ran(&lot(cc, 60));
        let rates: Vec<f64> = outcome.summary.flows.iter().map(|flow| flow.throughput_bps / 1e6).collect();
        println!("{cc}: {rates:.2?} Mbit/s");
        // Twice as many losses, and twice the round trip.
        assert!(rates[0] < 0.7 * rates[1] && rates[0] < 0.7 * rates[2] && rates[0] > 0.3, "{cc}: {rates:?}");
        for link in &outcome.summary.links {
            assert!(link.figures.utilization.unwrap() > 0.85, "{cc}: {link:?}");
        }
        let shares: Vec<f64> = outcome.summary.flows.iter().map(|flow| flow.share.unwrap()).collect();
        // On each link two flows share what there is.
        assert!(shares[0] + shares[1].min(shares[2]) < 1.01 && shares[0] < 0.45, "{shares:?}");
    }
}

#[test]
fn a_list_of_one_link_is_the_link() {
    let named = ONE_FLOW.replace("[link]", "[[link]]\nname = \"only\"");
    let path = format!("{named}path = [\"only\"]\n");
    let of = |text: &str| ran(&text.replace("10s", "3s")).summary;
    let plain = of(ONE_FLOW);
    for other in [of(&named), of(&path)] {
        assert_eq!(other.hash, plain.hash);
        assert_eq!(serde_json::to_string(&other).unwrap(), serde_json::to_string(&plain).unwrap());
    }
    assert!(!serde_json::to_string(&plain).unwrap().contains("\"links\""));
}

#[test]
fn a_way_back_is_as_long_as_the_path_unless_it_says_otherwise() {
    let text = lot("cubic", 3);
    assert_eq!([0, 1].map(|index| scenario(&text).delay_back(index)), [20, 10].map(Span::from_millis));
    let said = scenario(&format!("{text}[feedback]\ndelay = \"3ms\"\n"));
    assert_eq!([0, 1].map(|index| said.delay_back(index)), [3, 3].map(Span::from_millis));
    let open = scenario(&format!("{text}[feedback]\nrate = \"1mbit\"\n"));
    assert_eq!(open.delay_back(0), Span::from_millis(20));
}

#[test]
fn what_knows_one_bottleneck_refuses_several() {
    let several = scenario(&lot("cubic", 3));
    let overlay = Overlay::default();
    let errors = [
        meter(&several, &overlay, Span::from_millis(500)).map(drop).unwrap_err(),
        watch(&several, &overlay).map(drop).unwrap_err(),
        bottleneck(&several, "the grid").map(drop).unwrap_err().into(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.starts_with("test.toml:7: link[2]: "), "{text}");
        assert!(
            text.ends_with(" knows a single bottleneck, and there are 2 links: leave one, and no `path`")
        );
    }
}

/// What happened to packets at each link of a world that has run.
fn conserved(text: &str) -> Vec<FlowStats> {
    let scenario = scenario(text);
    let world = World::new(scenario.seed, None);
    let mut built = build::build(&scenario, world, &Overlay::default()).unwrap();
    built.world.run_until(Time::ZERO + scenario.duration);
    let mut of_links = Vec::new();
    for id in &built.links {
        let link = built.world.link(*id);
        let all = link.stats().total();
        let came = all.offered.packets + all.duplicated.packets;
        assert_eq!(came, all.delivered.packets + all.dropped.packets + link.inside(), "{}", link.name());
        of_links.push(all);
    }
    // What leaves a link of a flow's path comes to the next, at the same instant.
    for index in 0..scenario.flows.len() {
        let path = scenario.path_of(index);
        for pair in path.windows(2) {
            let of = |link: usize| built.world.link(built.links[link]).stats().flow(index as u16);
            assert_eq!(of(pair[0]).delivered, of(pair[1]).offered, "flow {index}");
        }
    }
    of_links
}

#[test]
fn no_packet_is_made_or_lost_between_links() {
    let cross = "[[cross]]\nkind = \"poisson\"\nrate = \"2mbit\"\npath = [\"cd\"]\n";
    let text = lot("cubic", 5).replacen("delay = \"10ms\"", "delay = \"10ms\"\nloss = 0.01", 1) + cross;
    let links = conserved(&text);
    assert!(links.iter().all(|link| link.offered.packets > 1_000 && link.dropped.packets > 0), "{links:?}");
}

/// Every kind of queue and fault, on the second link.
#[test]
fn second_links_have_all_that_a_first_has() {
    let folder = std::env::temp_dir().join(format!("framewire-links-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("x.trace"), "1\n2\n3\n5\n8\n13\n").unwrap();
    let first = "[[link]]\nname = \"a\"\nrate = \"4mbit\"\ndelay = \"5ms\"\nqueue = \"codel:ecn\"\n";
    for more in [
        "rate = \"2mbit\"\nqueue = \"fq_codel:ecn\"",
        "rate = \"2mbit\"\nqueue = \"dualpi2\"",
        "trace = \"x.trace\"\nloss = \"2%\"",
        "rate = \"2mbit\"\nburst = \"6kB\"\njitter = \"2ms\"\nduplicate = 0.02",
        "steps = [[\"0s\", \"3mbit\"], [\"1s\", \"1mbit\"]]\nmahimahi = true",
        "rate = \"2mbit\"\nblackout = [[\"1s\", \"1.3s\"]]\nreorder = { share = \"1%\", delay = \"5ms\" }",
    ] {
        let text = format!(
            "duration = \"3s\"\n{first}[[link]]\nname = \"b\"\ndelay = \"5ms\"\n{more}\n\
             [feedback]\nrate = \"1mbit\"\nloss = 0.01\n[[flow]]\ncc = \"scream\"\n[[flow]]\ncc = \"bbr\"\nsource = \"tcp\"\npath = [\"b\"]\n\
             [[flow]]\ncc = \"cubic\"\nsource = \"quic\"\nextra_delay = \"5ms\"\n"
        );
        let scenario = Scenario::parse(&text, &folder.join("x.toml")).unwrap();
        let outcome = run(&scenario, &RunOptions::default()).unwrap();
        let again = run(&scenario, &RunOptions { keep: Keep::Totals, ..RunOptions::default() }).unwrap();
        assert_eq!(outcome.summary.hash, again.summary.hash, "{more}");
        for flow in &outcome.summary.flows {
            assert!(flow.throughput_bps > 5e4, "{more}: {} {}", flow.name, flow.throughput_bps);
        }
        let second = &outcome.record.further[0];
        assert_eq!(second.totals.departed, second.departures.len() as u64);
        assert_eq!(
            outcome.summary.links[1].figures.packets,
            second.totals.accepted + second.drops.len() as u64
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn tables_say_which_link_a_packet_was_at() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let folder = std::env::temp_dir().join(format!("framewire-link-tables-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let outcome = ran(&lot("cubic", 2));
    let origin = outcome.origin();
    crate::tables::write_tables(&folder, &outcome.record, &outcome.names(), &origin).unwrap();
    let table = SerializedFileReader::new(std::fs::File::open(folder.join("link.parquet")).unwrap()).unwrap();
    let (mut at, mut last) = ([0u64; 2], 0);
    for row in table.get_row_iter(None).unwrap().map(Result::unwrap) {
        let cells: Vec<_> = row.get_column_iter().collect();
        let (name, link) = cells.last().unwrap();
        assert_eq!(name.as_str(), "link");
        at[usize::from(**link == Field::Str("cd".to_owned()))] += 1;
        let Field::Long(time) = cells[0].1 else { panic!("a time") };
        assert!(*time >= last, "rows are in the order of time");
        last = *time;
    }
    let rows = outcome.record.links().map(|l| (l.arrivals.len() + l.departures.len() + l.drops.len()) as u64);
    assert_eq!(at.to_vec(), rows.collect::<Vec<_>>());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_bounded_run_has_the_figures_of_all_links() {
    let scenario = scenario(&lot("cubic", 20));
    let whole = run(&scenario, &RunOptions::default()).unwrap();
    let limits = Limits { rows: 1 << 16, patience: Span::from_secs(2), ..Limits::default() };
    let bounded =
        run(&scenario, &RunOptions { keep: Keep::Bounded, limits, ..RunOptions::default() }).unwrap();
    assert_eq!(bounded.summary, whole.summary);
    for (folded, record) in bounded.record.links().zip(whole.record.links()) {
        assert!(folded.folded.is_some() && folded.departures.len() < record.departures.len());
        let bytes = |link: &LinkRecord| link.departures.iter().map(|row| u64::from(row.size)).sum::<u64>();
        assert_eq!(bytes(folded), bytes(record), "{}", record.name);
    }
}

prop_compose! {
    /// A path over some of `links` links, in any order.
    fn some_path(links: usize)(
        order in Just((0..links).collect::<Vec<_>>()).prop_shuffle(),
        count in 1..=links,
    ) -> String {
        let names: Vec<String> = order[..count].iter().map(|link| format!("\"l{link}\"")).collect();
        format!("path = [{}]\n", names.join(", "))
    }
}

prop_compose! {
    fn some_network()(links in 2usize..6)(
        rates in prop::collection::vec(200u64..5_000, links),
        delays in prop::collection::vec(0i64..30, links),
        queues in prop::collection::vec(prop::sample::select(vec!["droptail:20p", "codel", "fq_codel", "infinite"]), links),
        losses in prop::collection::vec(prop::sample::select(vec!["0.0", "0.03"]), links),
        flows in prop::collection::vec(
            (some_path(links), prop::sample::select(vec!["source = \"tcp\"\ncc = \"cubic\"", "cc = \"sqp\"", "source = \"backlog\"\ncc = \"copa\""])),
            1..5,
        ),
        cross in some_path(links),
        seed in 1u64..1_000,
    ) -> String {
        let mut text = format!("duration = \"1500ms\"\nseed = {seed}\n");
        for (i, rate) in rates.iter().enumerate() {
            let rate = Rate::from_kbps(*rate).as_bps();
            text += &format!(
                "[[link]]\nname = \"l{i}\"\nrate = \"{rate}bit\"\ndelay = \"{}ms\"\nqueue = \"{}\"\nloss = {}\n",
                delays[i], queues[i], losses[i]
            );
        }
        for (path, flow) in &flows {
            text += &format!("[[flow]]\n{flow}\n{path}");
        }
        text + "[[cross]]\nkind = \"onoff\"\nrate = \"300kbit\"\n" + &cross
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_network_of_links_runs_the_same_twice_and_keeps_its_packets(text in some_network()) {
        conserved(&text);
        let (one, two) = (ran(&text), ran(&text));
        prop_assert_eq!(&one.summary, &two.summary);
        prop_assert_eq!(one.summary.links.len(), one.record.further.len() + 1);
    }
}
