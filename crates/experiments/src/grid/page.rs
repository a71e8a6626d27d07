//! The grid's page: where cells fail, by controller and rate policy against axis levels, invariants and named
//! scenarios.

use std::fmt::Write;

use super::{AXES, Cell, Group, Invariant, Outcome, RULES, Scheme, Verdict};
use report::{escape, page, short};

/// Colours by the share that holds, in eighths; and what is asked of nothing.
const STYLE: &str = "<style>\
.grid{overflow:auto;max-height:88vh;padding:0 0 14px 20px;background:var(--card)}\
.grid table{width:auto;border-collapse:separate;border-spacing:1px;font-size:12px;line-height:1}\
.grid th,.grid td{padding:0;text-align:center;border:0!important;height:19px;min-width:19px}\
.grid thead th{background:var(--card);position:sticky;top:0;z-index:2;height:auto;vertical-align:bottom;padding-top:10px}\
.grid thead tr+tr th{top:26px}\
.grid thead i{writing-mode:vertical-rl;transform:rotate(180deg);font-style:normal;font-weight:500;padding:4px 0;max-height:11em;display:inline-block}\
.grid tbody th{position:sticky;left:0;z-index:1;background:var(--card);text-align:left;padding-right:10px;font-size:13px;font-weight:500}\
.grid tbody tr.new>*{border-top:5px solid var(--card)!important;height:24px}\
.grid td{border-radius:2px;font-variant-numeric:tabular-nums;color:#0009;width:19px}\
.grid .gap{min-width:9px;width:9px;background:none}\
.grid .none,.key .none{background:var(--shade)}\
.grid .s8,.key .s8{background:var(--smooth)}\
.grid .s0,.key .s0{background:var(--stalled);color:#fffd}\
.grid .s4,.key .s4{background:var(--uneven)}\
.grid .s7{background:color-mix(in srgb,var(--smooth) 72%,var(--uneven))}\
.grid .s6{background:color-mix(in srgb,var(--smooth) 48%,var(--uneven))}\
.grid .s5{background:color-mix(in srgb,var(--smooth) 22%,var(--uneven))}\
.grid .s3{background:color-mix(in srgb,var(--uneven) 75%,var(--stalled))}\
.grid .s2{background:color-mix(in srgb,var(--uneven) 50%,var(--stalled))}\
.grid .s1{background:color-mix(in srgb,var(--uneven) 25%,var(--stalled))}\
.key{display:flex;flex-wrap:wrap;gap:6px 18px;font-size:14px;margin:0 0 14px}.key i{display:inline-block;width:16px;height:12px;border-radius:2px;margin-right:7px}\
details{margin:6px 0}details table{font-size:14px}details td,details th{padding:4px 10px;text-align:left;white-space:normal}\
@media (max-width:720px){.grid{padding-left:12px}.grid tbody th{font-size:12px;max-width:112px;overflow:hidden;text-overflow:ellipsis}}\
</style>";

/// Of an outcome, whether it counts in a column and holds.
type Holds<'a> = Box<dyn Fn(&Outcome) -> Option<bool> + 'a>;

/// One column: its name, and what it says.
struct Column<'a> {
    name: String,
    of: Holds<'a>,
}

/// Columns under one head.
struct Block<'a> {
    name: &'static str,
    columns: Vec<Column<'a>>,
}

fn holds(outcome: &Outcome) -> Option<bool> {
    match outcome.verdict() {
        Verdict::Held => Some(true),
        Verdict::Failed => Some(false),
        Verdict::Excluded => None,
    }
}

fn blocks<'a>(cells: &'a [Cell], asked: &[Invariant]) -> Vec<Block<'a>> {
    let of_invariant = |&invariant: &Invariant| Column {
        name: invariant.name().to_owned(),
        of: Box::new(move |outcome: &Outcome| Some(outcome.of(invariant)?.holds())),
    };
    let mut blocks = vec![Block { name: "invariant", columns: asked.iter().map(of_invariant).collect() }];
    for (axis, of_axis) in AXES.iter().enumerate() {
        let column = |&level: &&'static str| Column {
            name: level.to_owned(),
            of: Box::new(move |outcome: &Outcome| {
                let levels = cells[outcome.cell].levels.as_ref()?;
                if levels[axis] == level { holds(outcome) } else { None }
            }),
        };
        blocks.push(Block { name: of_axis.name, columns: of_axis.levels.iter().map(column).collect() });
    }
    let named = cells.iter().enumerate().filter(|(_, cell)| cell.group == Group::Named);
    let column = |(index, cell): (usize, &'a Cell)| Column {
        name: cell.name.clone(),
        of: Box::new(move |outcome: &Outcome| if outcome.cell == index { holds(outcome) } else { None }),
    };
    blocks.push(Block { name: "scenario file", columns: named.map(column).collect() });
    blocks.retain(|block| !block.columns.is_empty());
    blocks
}

/// The page of a run of the grid. `commit` is the program's.
pub fn render(
    schemes: &[Scheme],
    cells: &[Cell],
    asked: &[Invariant],
    outcomes: &[Outcome],
    commit: &str,
) -> String {
    let tally = |verdict| outcomes.iter().filter(|outcome| outcome.verdict() == verdict).count();
    let (held, failed) = (tally(Verdict::Held), tally(Verdict::Failed));
    let mut body = format!(
        "{STYLE}<header><p class=\"brand\">Framewire</p><h1>Where invariants hold</h1>\
         <p class=\"lead\">{} over {} networks far from the papers&rsquo; points. \
         {held} of {} cells hold, {failed} fail; {} are out of reach.</p>\
         <p class=\"chips\"><span class=\"chip\"><b>commit</b>{}</span></p></header>\n",
        match schemes {
            [one] => escape(&one.to_string()),
            all => format!("{} pairs of a controller and a rate policy", all.len()),
        },
        cells.len(),
        held + failed,
        tally(Verdict::Excluded),
        escape(commit)
    );
    body.push_str(
        "<p class=\"key\"><span><i class=\"s8\"></i>all hold</span><span><i class=\"s4\"></i>half</span>\
         <span><i class=\"s0\"></i>none; the number is how many fail</span><span><i class=\"none\"></i>nothing is asked</span></p>\n",
    );
    body.push_str(&heat_map(schemes, cells, asked, outcomes));
    body.push_str(&failures(schemes, cells, outcomes));
    body.push_str(&rules());
    page("Where invariants hold", &body)
}

fn heat_map(schemes: &[Scheme], cells: &[Cell], asked: &[Invariant], outcomes: &[Outcome]) -> String {
    let blocks = blocks(cells, asked);
    let (mut heads, mut names) = (String::from("<tr><th></th>"), String::from("<tr><th></th>"));
    for block in &blocks {
        let span = block.columns.len();
        let _ = write!(heads, "<th class=\"gap\"></th><th colspan=\"{span}\">{}</th>", block.name);
        names.push_str("<th class=\"gap\"></th>");
        for column in &block.columns {
            let _ = write!(names, "<th><i>{}</i></th>", escape(&column.name));
        }
    }
    let mut text =
        format!("<div class=\"card grid\"><table><thead>{heads}</tr>{names}</tr></thead><tbody>\n");
    let mut before = "";
    for (scheme, outcomes) in schemes.iter().zip(outcomes.chunks(cells.len().max(1))) {
        let new = if before.is_empty() || before == scheme.cc { "" } else { " class=\"new\"" };
        before = &scheme.cc;
        let _ = write!(text, "<tr{new}><th>{}</th>", escape(&scheme.to_string()));
        for block in &blocks {
            text.push_str("<td class=\"gap\"></td>");
            for column in &block.columns {
                text.push_str(&square(scheme, block.name, column, outcomes));
            }
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

fn square(scheme: &Scheme, block: &str, column: &Column<'_>, outcomes: &[Outcome]) -> String {
    let found: Vec<bool> = outcomes.iter().filter_map(|outcome| (column.of)(outcome)).collect();
    let (held, all) = (found.iter().filter(|held| **held).count(), found.len());
    if all == 0 {
        return "<td class=\"none\"></td>".to_owned();
    }
    // Only where everything holds is it the colour of all, only where nothing does that of none.
    let eighths = if held == all { 8 } else { (held * 8 / all).max(usize::from(held > 0)) };
    let failed = if held == all { String::new() } else { (all - held).to_string() };
    let title = format!("{scheme}, {block} {}: {held} of {all} hold", column.name);
    format!("<td class=\"s{eighths}\" title=\"{}\">{failed}</td>", escape(&title))
}

fn failures(schemes: &[Scheme], cells: &[Cell], outcomes: &[Outcome]) -> String {
    let mut text = String::from("<h2>The cells that fail</h2>\n");
    for (scheme, outcomes) in schemes.iter().zip(outcomes.chunks(cells.len().max(1))) {
        let broken: Vec<_> =
            outcomes.iter().flat_map(|outcome| outcome.broken().map(move |f| (outcome, f))).collect();
        if broken.is_empty() {
            continue;
        }
        let failed = outcomes.iter().filter(|outcome| outcome.verdict() == Verdict::Failed).count();
        let _ = write!(
            text,
            "<details><summary>{}: {failed}</summary><div class=\"scroll\"><table><thead><tr><th>cell</th><th>invariant</th>\
             <th>measured</th><th>allowed</th></tr></thead><tbody>",
            escape(&scheme.to_string())
        );
        for (outcome, finding) in broken {
            let (name, unit) = (finding.invariant.name(), finding.invariant.unit());
            let _ = write!(
                text,
                "<tr><th>{}</th><td>{name}</td><td>{} {unit}</td><td>{}</td></tr>",
                escape(&cells[outcome.cell].name),
                short(finding.value),
                short(finding.limit)
            );
        }
        text.push_str("</tbody></table></div></details>\n");
    }
    text
}

fn rules() -> String {
    let mut text = String::from("<footer><h2>What is not asked</h2><dl>");
    for rule in RULES {
        let spares: Vec<&str> = rule.spares.iter().map(|invariant| invariant.name()).collect();
        let _ =
            write!(text, "<dt>{}</dt><dd>{} ({})</dd>", rule.name, escape(rule.reason), spares.join(", "));
    }
    text.push_str("</dl></footer>\n");
    text
}
