//! `docs/add-a-controller.md` quotes its example to the letter.
#![allow(missing_docs, reason = "tests")]

use std::path::Path;

/// The contents of fenced blocks of `language`.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("\n```{language}\n");
    page.split(&opening).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn code_on_the_page_is_code_of_the_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).expect("it is in the repository");
    let page = read("../../docs/add-a-controller.md");
    for (language, file) in [("rust", "examples/aimd.rs"), ("markdown", "examples/aimd.md")] {
        let source = read(file);
        let blocks = blocks(&page, language);
        assert!(!blocks.is_empty(), "no {language} on the page");
        for block in blocks {
            assert!(source.contains(block), "{file} has no such lines:\n{block}");
        }
    }
    // All of the example but its main function, for nothing on the page may be left to guess.
    let shown: usize = blocks(&page, "rust").iter().flat_map(|block| block.lines()).count();
    let whole = read("examples/aimd.rs").lines().filter(|line| !line.is_empty()).count();
    assert!(shown * 10 >= whole * 8, "{shown} of {whole} lines shown");
}
