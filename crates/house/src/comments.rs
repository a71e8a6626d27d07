//! A public item's comment says more than its name does.

use crate::tree;

/// Words that add nothing to a noun.
const EMPTY: [&str; 12] = ["a", "an", "the", "its", "their", "this", "whose", "it", "is", "one", "of", "in"];

/// The line that ends a public enum or trait that begins here: what is in it is public too.
fn end_of_public(line: &str) -> Option<String> {
    let item = line.trim_start();
    let begins = ["pub enum ", "pub trait ", "pub(crate) enum ", "pub(crate) trait "];
    let public = begins.iter().any(|begin| item.starts_with(begin)) && item.ends_with('{');
    public.then(|| format!("{}}}", &line[..line.len() - item.len()]))
}

/// Public items, variants of public enums and methods of public traits among them, that have a comment of one
/// word (`/// When.`, `/// Its number.`), as line, comment. Lines without a full stop are the help of a flag,
/// which stands beside its name.
fn bare(text: &str) -> Vec<(usize, String)> {
    let source = text.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut found, mut comment, mut within) = (Vec::new(), Vec::new(), None::<String>);
    for (number, line) in (1..).zip(source.lines()) {
        if let Some(said) = line.trim().strip_prefix("///") {
            comment.push(said.trim());
        } else if !line.trim().starts_with("#[") {
            let said = comment.join(" ");
            let full = |word: &&str| !EMPTY.contains(&word.trim_end_matches('.').to_lowercase().as_str());
            let sentence = said.ends_with('.') && (within.is_some() || line.trim().starts_with("pub "));
            if sentence && said.split_whitespace().filter(full).count() <= 1 {
                found.push((number - 1, said));
            }
            comment.clear();
            within = within.filter(|end| line != end).or_else(|| end_of_public(line));
        }
    }
    found
}

#[test]
fn comments_of_public_items_say_something() {
    let sources = tree::sources().into_iter();
    let sources = sources.filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"));
    let empty = sources.flat_map(|file| {
        bare(&file.text).into_iter().map(move |(at, said)| format!("{}:{at} says only: {said}", file.path))
    });
    tree::expect_none("comments that repeat a name", &empty.collect::<Vec<_>>());
}

#[test]
fn a_word_is_no_comment_and_a_sentence_is() {
    let item = |comment: &str| format!("struct S {{\n    /// {comment}\n    #[x]\n    pub at: Time,\n}}");
    let says_nothing = |comment: &str| !bare(&item(comment)).is_empty();
    assert!(says_nothing("When.") && says_nothing("Its number.") && says_nothing("The controller."));
    assert!(!says_nothing("When it was sent.") && !says_nothing("Luma rows.") && !says_nothing("Jitter"));
    let variant = "pub enum E {\n    /// Nothing.\n    None,\n}\nenum F {\n    /// Nothing.\n    None,\n}";
    assert_eq!(bare(variant), [(2, "Nothing.".to_owned())]);
    let method = "    pub trait T {\n        /// Picks.\n        fn pick(&self);\n    }\n    /// Picks.\n    fn pick();";
    assert_eq!(bare(method), [(2, "Picks.".to_owned())]);
    assert_eq!(bare("/// When.\nat: Time,\n#[cfg(test)]\n/// When.\npub fn f() {}"), []);
}
