//! The papers whose figures and tables are reproduced, by names that people can say.

/// A paper whose figures are reproduced, with the names it goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// What `framewire lab check --paper` calls it.
    pub key: &'static str,
    /// What its experiments' files call it (`seed`), and the claims' names begin with.
    pub document: &'static str,
    /// What a heading calls it.
    pub title: &'static str,
}

/// All of them; last what is claimed by nobody but us. Two of one key are parts of one document.
pub const PAPERS: [Paper; 9] = [
    paper("sqp", "000", "SQP (arXiv 2207.11857)"),
    paper("quic-dc", "001", "QUIC-DC"),
    paper("gcc-aqm", "002", "GCC and active queue management"),
    paper("thesis", "003-ccfuzz", "CC-Fuzz (a thesis, chapter 7)"),
    paper("thesis", "003-vantage", "Vantage (a thesis, chapter 3)"),
    paper("thesis", "003-prism", "Prism (a thesis, chapter 4)"),
    paper("thesis", "003-vixnn", "ViXNN (a thesis, chapter 5)"),
    paper("vidaptive", "004", "Vidaptive"),
    paper("ours", "ours", "Our own"),
];

const fn paper(key: &'static str, document: &'static str, title: &'static str) -> Paper {
    Paper { key, document, title }
}

impl Paper {
    /// The paper of this document.
    pub fn find(document: &str) -> Option<&'static Paper> {
        PAPERS.iter().find(|paper| paper.document == document)
    }

    /// The documents of a paper by its key, or by one of them.
    pub fn documents(name: &str) -> Vec<&'static str> {
        let of = PAPERS.iter().filter(|paper| paper.key == name || paper.document == name);
        of.map(|paper| paper.document).collect()
    }

    /// Every paper's key, each once.
    pub fn keys() -> Vec<&'static str> {
        let mut keys: Vec<&str> = PAPERS.iter().map(|paper| paper.key).collect();
        keys.dedup();
        keys
    }

    /// The key of a document, or the document's own name where it is no paper's.
    pub fn key_of(document: &str) -> &str {
        PAPERS.iter().find(|paper| paper.document == document).map_or(document, |paper| paper.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_of_one_paper_and_a_key_names_all_of_its_parts() {
        for paper in &PAPERS {
            assert_eq!(Paper::find(paper.document), Some(paper));
            assert_eq!(Paper::documents(paper.document), [paper.document]);
            assert!(Paper::documents(paper.key).contains(&paper.document));
            assert_eq!(Paper::key_of(paper.document), paper.key);
        }
        assert_eq!(Paper::documents("thesis"), ["003-ccfuzz", "003-vantage", "003-prism", "003-vixnn"]);
        assert_eq!(Paper::keys(), ["sqp", "quic-dc", "gcc-aqm", "thesis", "vidaptive", "ours"]);
        assert_eq!((Paper::find("000x"), Paper::key_of("mine")), (None, "mine"));
        assert!(Paper::documents("000x").is_empty());
    }
}
