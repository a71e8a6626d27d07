//! A public item's comment says more than its name does.

use crate::tree;

/// Words that add nothing to a noun.
const EMPTY: [&str; 12] = ["a", "an", "the", "its", "their", "this", "whose", "it", "is", "one", "of", "in"];

/// Public items that have a comment of one word (`/// When.`, `/// Its number.`), as line, comment. Lines
/// without a full stop are the help of a flag, which stands beside its name.
fn bare(text: &str) -> Vec<(usize, String)> {
    let source = text.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut found, mut comment) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(source.lines().map(str::trim)) {
        if let Some(said) = line.strip_prefix("///") {
            comment.push(said.trim());
        } else if !line.starts_with("#[") {
            let said = comment.join(" ");
            let full = |word: &&str| !EMPTY.contains(&word.trim_end_matches('.').to_lowercase().as_str());
            let sentence = said.ends_with('.') && line.starts_with("pub ");
            if sentence && said.split_whitespace().filter(full).count() <= 1 {
                found.push((number - 1, said));
            }
            comment.clear();
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
    assert_eq!(bare("/// When.\nat: Time,\n#[cfg(test)]\n/// When.\npub fn f() {}"), []);
}
