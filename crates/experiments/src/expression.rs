//! One number from named numbers and lists: what a user writes instead of code.
//!
//! ```text
//! percentile(frame_delay_ms, 90) / 100 - utilisation
//! ```
//!
//! The language is that of the formulas of [`experiment`](crate), [Rhai](https://rhai.rs), cut
//! down to expressions: no loops, no functions of one's own, no text that is run, and lists that can be
//! summarised but not built. So an expression of so many characters calls so many functions at most, each of
//! which takes as long as sorting the longest list, and holds nothing but numbers.

use std::rc::Rc;

use rhai::{Dynamic, Engine, EvalAltResult, FLOAT, INT, OptimizationLevel, Scope};

use crate::value::number;
use lab::metrics::nearest_rank;

/// Longer ones are nothing a person reads.
pub const LONGEST: usize = 2_000;
/// Steps, of which a character makes a handful at most: only a fault of the engine gets there.
const STEPS: u64 = 100_000;
/// Brackets within brackets.
const DEEPEST: usize = 64;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Named {
    /// A single number.
    Number(f64),
    /// Numbers, in any order.
    List(Vec<f64>),
}

/// Values by name.
pub type Names = Vec<(&'static str, Named)>;

/// An expression that can be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(String);

/// A list inside the engine: copied by reference, and never changed.
#[derive(Clone)]
struct List(Rc<[f64]>);

type Answer<T> = Result<T, Box<EvalAltResult>>;

impl Expression {
    /// Reads an expression of these names.
    ///
    /// # Errors
    /// What is wrong with it, where, and which names there are.
    pub fn parse(text: &str, names: &[&str]) -> Result<Expression, String> {
        if text.len() > LONGEST {
            return Err(format!("{} characters; an expression has {LONGEST} at most", text.len()));
        }
        let mut scope = Scope::new();
        names.iter().for_each(|name| _ = scope.push(*name, 0.0));
        match engine().compile_expression_with_scope(&scope, text) {
            Ok(_) => Ok(Expression(text.to_owned())),
            Err(error) => Err(format!("{error}; the names are {}", names.join(", "))),
        }
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether it may depend on what is called `name`.
    pub fn mentions(&self, name: &str) -> bool {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.0.split(|c: char| !part(c)).any(|word| word == name)
    }

    /// Its value; the same names give the same value to the bit.
    ///
    /// # Errors
    /// What went wrong, such as a list where a number is wanted. Divisions by zero are none: they give
    /// infinity, or no number.
    pub fn evaluate(&self, names: &Names) -> Result<f64, String> {
        let mut scope = Scope::new();
        for (name, value) in names.iter().filter(|(name, _)| self.mentions(name)) {
            match value {
                Named::Number(number) => scope.push(*name, *number),
                Named::List(list) => scope.push(*name, List(list.as_slice().into())),
            };
        }
        let engine = engine();
        let ast = engine.compile_expression_with_scope(&scope, &self.0).map_err(|error| error.to_string())?;
        let result = engine.eval_ast_with_scope::<Dynamic>(&mut scope, &ast).map_err(|e| e.to_string())?;
        let kind = engine.map_type_name(result.type_name());
        number(&result)
            .ok_or_else(|| format!("it gives a {kind}, not a number; mean() or percentile() makes one"))
    }
}

fn engine() -> Engine {
    let mut engine = Engine::new_raw();
    engine.set_max_operations(STEPS).set_max_expr_depths(DEEPEST, DEEPEST);
    engine.set_max_string_size(LONGEST).set_max_array_size(LONGEST).set_max_map_size(LONGEST);
    engine.set_strict_variables(true).set_allow_anonymous_fn(false).set_allow_looping(false);
    // As they are written, so that what is registered here holds for literals too.
    engine.set_optimization_level(OptimizationLevel::None).set_fast_operators(false);
    for symbol in ["eval", "Fn", "call", "curry", "print", "debug"] {
        engine.disable_symbol(symbol);
    }
    engine.register_type_with_name::<List>("list");
    scalars(&mut engine);
    lists(&mut engine);
    engine
}

type One = fn(f64) -> f64;
type Two = fn(f64, f64) -> f64;

/// Numbers are real ones: a half is `1 / 2`.
fn scalars(engine: &mut Engine) {
    engine.register_fn("/", |a: INT, b: INT| a as f64 / b as f64);
    engine.register_fn("-", |a: FLOAT| -a);
    engine.register_fn("-", |a: INT| -(a as f64));
    let one: [(&str, One); 5] =
        [("abs", f64::abs), ("sqrt", f64::sqrt), ("ln", f64::ln), ("exp", f64::exp), ("floor", f64::floor)];
    for (name, of) in one {
        engine.register_fn(name, move |x: Dynamic| Answer::Ok(of(real(&x)?)));
    }
    let two: [(&str, Two); 2] = [("min", f64::min), ("max", f64::max)];
    for (name, of) in two {
        engine.register_fn(name, move |a: Dynamic, b: Dynamic| Answer::Ok(of(real(&a)?, real(&b)?)));
    }
    engine.register_fn("within", |x: Dynamic, least: Dynamic, most: Dynamic| {
        Answer::Ok((real(&least)?..=real(&most)?).contains(&real(&x)?))
    });
}

/// What becomes of lists. Of an empty one there is no mean, no least and no percentile: they are no number.
fn lists(engine: &mut Engine) {
    engine.register_fn("count", |list: List| list.0.len() as f64);
    engine.register_fn("sum", |list: List| list.0.iter().sum::<f64>());
    engine.register_fn("mean", |list: List| mean(&list.0));
    engine.register_fn("least", |list: List| list.0.iter().copied().reduce(f64::min).unwrap_or(f64::NAN));
    engine.register_fn("most", |list: List| list.0.iter().copied().reduce(f64::max).unwrap_or(f64::NAN));
    engine.register_fn("percentile", |list: List, p: Dynamic| {
        Answer::Ok(nearest_rank(&sorted(&list), real(&p)?).unwrap_or(f64::NAN))
    });
    engine.register_fn("lowest", |list: List, share: Dynamic| {
        let count = (list.0.len() as f64 * real(&share)?).ceil() as usize;
        Answer::Ok(mean(&sorted(&list)[..count.min(list.0.len())]))
    });
}

fn sorted(list: &List) -> Vec<f64> {
    let mut values = list.0.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn real(value: &Dynamic) -> Answer<f64> {
    number(value).ok_or_else(|| format!("a number is wanted here, not a {}", value.type_name()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> Names {
        let list = |of: &[f64]| Named::List(of.to_vec());
        vec![
            ("delay_ms", list(&[40.0, 10.0, 30.0, 20.0])),
            ("none", list(&[])),
            ("utilisation", Named::Number(0.75)),
        ]
    }

    fn value(text: &str) -> Result<f64, String> {
        let names = names();
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        Expression::parse(text, &known)?.evaluate(&names)
    }

    #[test]
    fn numbers_are_real_and_lists_are_summarised() {
        for (text, expected) in [
            ("percentile(delay_ms, 90) / 100 - utilisation", 40.0 / 100.0 - 0.75),
            ("1 / 2", 0.5),
            ("-1 / 2 + 2 * 3", 5.5),
            ("-utilisation", -0.75),
            ("mean(delay_ms) + least(delay_ms) + most(delay_ms)", 75.0),
            ("lowest(delay_ms, 0.5) + count(delay_ms) + sum(delay_ms)", 119.0),
            ("if utilisation > 0.5 { max(1, 2) } else { 0 }", 2.0),
            ("within(utilisation, 0, 1)", 1.0),
            ("abs(-3) + sqrt(4) + floor(1.5) + min(1, 0.5)", 6.5),
            ("1 / 0", f64::INFINITY),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        assert!(value("mean(none)").unwrap().is_nan() && value("percentile(none, 5)").unwrap().is_nan());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, what) in [
            ("delay", "the names are delay_ms, none, utilisation"),
            ("delay_ms", "it gives a list, not a number"),
            ("delay_ms + 1", "list"),
            ("sqrt(delay_ms)", "a number is wanted"),
            ("1 +", "the names are"),
            ("nothing(1)", "nothing"),
            ("loop {}", ""),
            ("while true {}", ""),
            ("let x = 1; x", ""),
            ("eval(\"1\")", "eval"),
            ("Fn(\"mean\").call(delay_ms)", ""),
            ("(|x| x)(1)", ""),
            ("`${loop {}}`", ""),
            ("{ let x = 1; x }", ""),
        ] {
            let error = value(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
        let long = format!("1{}", " + 1".repeat(600));
        assert!(value(&long).unwrap_err().starts_with("2401 characters; "));
        let deep = format!("{}1{}", "(".repeat(900), ")".repeat(900));
        assert!(value(&deep).is_err());
    }

    #[test]
    fn words_are_whole() {
        let expression =
            Expression::parse("utilisation + mean(delay_ms)", &["utilisation", "delay_ms"]).unwrap();
        assert!(
            expression.mentions("delay_ms") && !expression.mentions("delay") && !expression.mentions("ms")
        );
        assert_eq!(expression.text(), "utilisation + mean(delay_ms)");
    }

    /// Pieces of the language, so that a good part of what is drawn is read.
    const PIECES: [&str; 40] = [
        "1",
        "2.5",
        "0",
        "1e308",
        "utilisation",
        "delay_ms",
        "none",
        "+",
        "-",
        "*",
        "/",
        "**",
        "%",
        "(",
        ")",
        ",",
        "mean(",
        "percentile(",
        "lowest(",
        "max(",
        "if ",
        "{",
        "}",
        " else ",
        "==",
        "<",
        "&&",
        "!",
        "[",
        "]",
        "loop",
        "while",
        "for x in ",
        "`${",
        "}`",
        "|x|",
        ";",
        "\"a\"",
        "eval(",
        "switch ",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn none_hangs_or_depends_on_anything_else(picks in prop::collection::vec(0..PIECES.len(), 0..60)) {
            let text: String = picks.into_iter().map(|pick| PIECES[pick]).collect();
            let (one, two) = (value(&text), value(&text));
            prop_assert_eq!(one.map(f64::to_bits), two.map(f64::to_bits));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}") {
            let _ = value(&text);
        }
    }
}
