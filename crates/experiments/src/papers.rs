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

/// All of them; last what is claimed by nobody but us.
pub const PAPERS: [Paper; 6] = [
    paper("sqp", "000", "SQP (arXiv 2207.11857)"),
    paper("quic-dc", "001", "QUIC-DC"),
    paper("gcc-aqm", "002", "GCC and active queue management"),
    paper("thesis", "003-ccfuzz", "CC-Fuzz (a thesis, chapter 7)"),
    paper("vidaptive", "004", "Vidaptive"),
    paper("ours", "ours", "Our own"),
];

const fn paper(key: &'static str, document: &'static str, title: &'static str) -> Paper {
    Paper { key, document, title }
}

impl Paper {
    /// The paper of this key or document.
    pub fn find(name: &str) -> Option<&'static Paper> {
        PAPERS.iter().find(|paper| paper.key == name || paper.document == name)
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
    fn a_paper_has_one_key_and_one_document() {
        for paper in &PAPERS {
            assert_eq!(Paper::find(paper.key), Some(paper));
            assert_eq!(Paper::find(paper.document), Some(paper));
            assert_eq!(Paper::key_of(paper.document), paper.key);
        }
        assert_eq!((Paper::find("000x"), Paper::key_of("mine")), (None, "mine"));
    }
}
