//! Every strategy by name. Scenario files, `send`, `serve` and the documentation grow from this table.

use std::path::Path;
use std::sync::Arc;

use ::prism::{Table, Tables};
use cc::{OptionError, Options};
use predict::Watch;
use units::Span;

use super::{Backup, Fec, Live, Prism, Resend, Strategy, Unchained, fec};
use crate::recovery;

/// A strategy, or why its options can't be taken.
pub type Built = Result<Box<dyn Strategy>, OptionError>;

/// One row: a strategy, or a preset of one.
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The options it takes, each with a line of help.
    pub options: &'static [(&'static str, &'static str)],
    /// Says in a line for people what it takes because the options name nothing, if it takes something.
    pub fallback: fn(&Options) -> Option<&'static str>,
    /// Builds one from options. Its Deadline tracks, if it has any, recover by the policy of this name.
    pub build: fn(&Options, &str) -> Built,
}

/// What strategies with a mode for losses have in common.
const PREDICTOR: (&str, &str) = (
    "predictor",
    "what foresees losses, so that the recovery begins before them (none); `framewire predict list` lists them",
);

/// All of them, in the order they are listed to people; the first is what a flow uses that names none.
pub const REGISTRY: &[Entry] = &[
    Entry {
        name: "live",
        summary: "one track; its losses are answered by the recovery policy",
        options: &[],
        fallback: no_fallback,
        build: |_, recovery| Ok(Box::new(Live::with(recovery::build(recovery)?))),
    },
    Entry {
        name: "backup",
        summary: "two tracks: predicted frames that are sent until they arrive, and small key frames that are sent once",
        options: &[],
        fallback: no_fallback,
        build: |_, _| Ok(Box::new(Backup)),
    },
    Entry {
        name: "resend",
        summary: "one track that is sent until it arrives, whatever the deadline",
        options: &[],
        fallback: no_fallback,
        build: |_, _| Ok(Box::new(Resend)),
    },
    Entry {
        name: "key-frame",
        summary: "one track without repairs; while something may be lost, every frame is a key frame (thesis section 4.2)",
        options: &[PREDICTOR],
        fallback: no_fallback,
        build: |options, _| Ok(Box::new(Unchained::key_frames(watch(options)?))),
    },
    Entry {
        name: "prism",
        summary: "predicted frames that are sent until they arrive; while one is missing, key frames beside them (thesis chapter 4)",
        options: &[
            (
                "style",
                "content that the decision table was made for (global); `framewire prism table --help` lists them",
            ),
            ("table", "a file that `framewire prism table` wrote, in place of a style"),
            ("foretold", "a second one, for recoveries that only the predictor asks for so far (as `table`)"),
            (
                "decode",
                "time that the receiver's decoder takes for a frame (a third of an interval): key frames go on until it has caught up",
            ),
            PREDICTOR,
        ],
        fallback: table_fallback,
        build: |options, _| {
            Ok(Box::new(Prism::new(tables(options)?, watch(options)?, decode_time(options)?)))
        },
    },
    Entry {
        name: "fec",
        summary: "one track with parity packets in each frame; the recovery policy answers what they can't make good",
        options: &[(
            "share",
            "parity packets for each packet of a frame, above 0 and at most 1 (0.2), rounded up",
        )],
        fallback: no_fallback,
        build: |options, recovery| Ok(Box::new(Fec::new(share(options)?, recovery::build(recovery)?))),
    },
    Entry {
        name: "prism-ltr",
        summary: "one track without repairs; while something may be lost, every frame is predicted from the newest that is known to have arrived",
        options: &[PREDICTOR],
        fallback: no_fallback,
        build: |options, _| Ok(Box::new(Unchained::from_acked(watch(options)?))),
    },
];

/// Builds the strategy that `text` names, with options: `prism:style=racing`. Its Deadline tracks recover by
/// the policy called `recovery`.
///
/// # Errors
/// [`OptionError`] if there is none of that name, or it does not take the options.
pub fn build(text: &str, recovery: &str) -> Built {
    let options: Options = text.parse()?;
    let entry = cc::entry_called("strategy", &options.name, REGISTRY, |entry| entry.name)?;
    options.check_keys(entry.options)?;
    (entry.build)(&options, recovery)
}

/// What the strategy that `text` names falls back to because `text` does not say, in a line for people.
pub fn fallback(text: &str) -> Option<&'static str> {
    let options: Options = text.parse().ok()?;
    let entry = REGISTRY.iter().find(|entry| entry.name == options.name)?;
    (entry.fallback)(&options)
}

fn no_fallback(_: &Options) -> Option<&'static str> {
    None
}

fn table_fallback(options: &Options) -> Option<&'static str> {
    let silent = !options.is_set("style") && !options.is_set("table");
    silent.then_some(
        "strategy prism: the built-in decision table of all clips; `prism:style=` or `table=` names another",
    )
}

/// Parity packets for each packet of a frame.
fn share(options: &Options) -> Result<f64, OptionError> {
    let Some(text) = options.text("share") else { return Ok(fec::SHARE) };
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| options.refuse("share", "a number above 0 and at most 1, such as 0.2".to_owned()))
}

/// The time of a frame in the receiver's decoder, if the options say it.
fn decode_time(options: &Options) -> Result<Option<Span>, OptionError> {
    let Some(text) = options.text("decode") else { return Ok(None) };
    let time = text.parse().ok().filter(|time| (Span::ZERO..=Span::from_secs(1)).contains(time));
    time.map(Some).ok_or_else(|| options.refuse("decode", "a time of at most 1s, such as 10ms".to_owned()))
}

/// What the options have foresee losses.
fn watch(options: &Options) -> Result<Option<Watch>, OptionError> {
    let Some(name) = options.text("predictor").filter(|&name| name != "none") else { return Ok(None) };
    let predictor = predict::build(name)
        .map_err(|error| options.refuse("predictor", format!("a loss predictor: {error}")))?;
    Ok(Some(Watch::new(predictor)))
}

/// The decision tables that the options name: files, those of a style that ship, or those of all clips.
fn tables(options: &Options) -> Result<Tables, OptionError> {
    let mut tables = style(options)?;
    if let Some(table) = file(options, "table")? {
        tables = Tables { lost: table.clone(), foretold: table };
    }
    if let Some(table) = file(options, "foretold")? {
        tables.foretold = table;
    }
    Ok(tables)
}

/// The tables of the style that the options name.
fn style(options: &Options) -> Result<Tables, OptionError> {
    let Some(style) = options.text("style") else { return Ok(Tables::global()) };
    let styles = || Table::styles().collect::<Vec<_>>().join(", ");
    Tables::by_style(style).ok_or_else(|| options.refuse("style", format!("one of {}", styles())))
}

/// The table in the file that an option names.
fn file(options: &Options, key: &str) -> Result<Option<Arc<Table>>, OptionError> {
    let Some(file) = options.text(key) else { return Ok(None) };
    let table = Table::read(Path::new(file));
    table
        .map(|table| Some(Arc::new(table)))
        .map_err(|error| options.refuse(key, format!("a decision table: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::TRACKS;

    #[test]
    fn every_entry_builds_and_a_wrong_one_is_told_what_there_is() {
        for entry in REGISTRY {
            let strategy = build(entry.name, "retransmit").unwrap();
            assert!((1..=TRACKS).contains(&strategy.tracks(0).len()), "{}", entry.name);
            let error = build(&format!("{}:nonsense=1", entry.name), "retransmit").err().unwrap();
            assert!(error.to_string().starts_with(&format!("{} has no option `nonsense`", entry.name)));
        }
        let error = build("tambur", "retransmit").err().unwrap().to_string();
        assert_eq!(
            error,
            "no strategy is called `tambur`; there are live, backup, resend, key-frame, prism, fec, prism-ltr"
        );
        for share in ["0", "-0.1", "1.1", "NaN", "much"] {
            let error = build(&format!("fec:share={share}"), "retransmit").err().unwrap().to_string();
            assert!(error.ends_with("it must be a number above 0 and at most 1, such as 0.2"), "{error}");
        }
        assert!(build("live", "fec").err().unwrap().to_string().starts_with("no recovery policy"));
    }
    #[test]
    fn losses_are_foreseen_where_that_is_asked_for() {
        for name in ["prism", "key-frame", "prism-ltr"] {
            let watches =
                |option: &str| build(&format!("{name}{option}"), "none").unwrap().take_watch().is_some();
            assert!(!watches("") && !watches(":predictor=none"));
            assert!(watches(":predictor=cnn") && watches(":predictor=rtt:above=2"));
            let error = build(&format!("{name}:predictor=oracle"), "none").err().unwrap().to_string();
            assert!(error.ends_with("no loss predictor is called `oracle`; there are cnn, rtt"), "{error}");
        }
        assert!(build("resend:predictor=cnn", "none").is_err(), "it has no mode for losses");
    }
    #[test]
    fn prism_takes_a_style_or_a_file_and_says_what_is_wrong_with_it() {
        for style in Table::styles() {
            assert!(build(&format!("prism:style={style}"), "none").is_ok());
        }
        assert!(fallback("prism:decode=5ms").is_some() && fallback("prism:style=racing").is_none());
        assert!(fallback("live").is_none());
        let error = |text: &str| build(text, "none").err().unwrap().to_string();
        assert_eq!(
            error("prism:style=golf"),
            "option `style` of prism is `golf`; it must be one of global, racing, arcade, talking-head, close-up, traffic, film"
        );
        let file = std::env::temp_dir().join(format!("framewire-torn-table-{}.json", std::process::id()));
        let whole = Table::global().to_json();
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        let torn = error(&format!("prism:table={}", file.display()));
        assert!(torn.contains("it must be a decision table: ") && !torn.contains('\n'), "{torn}");
        std::fs::write(&file, whole).unwrap();
        assert!(build(&format!("prism:table={}", file.display()), "none").is_ok());
        assert!(build(&format!("prism:style=racing,foretold={}", file.display()), "none").is_ok());
        std::fs::remove_file(&file).unwrap();
        assert!(error("prism:foretold=/nowhere.json").starts_with("option `foretold` of prism"));
        assert!(error("prism:table=/nowhere.json").contains("/nowhere.json"));
        assert!(build("prism:decode=10ms", "none").is_ok());
        assert!(error("prism:decode=2s").ends_with("it must be a time of at most 1s, such as 10ms"));
    }
}
