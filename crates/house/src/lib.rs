//! The rules of the house, as tests. There is nothing here to call.
//!
//! | rule | where |
//! |---|---|
//! | a crate imports only what the arrows in `ARCHITECTURE.md` allow | `arrows` |
//! | every dependency carries a licence we may pass on | `licence` |
//! | no dependency has a known vulnerability (where the advisory database is at hand) | `advisory` |
//! | no clock, randomness or hash order outside `real`, `instruments` and `cli` | `determinism` |
//! | no unfinished work, switched-off test, machine's path, overlong file or function, comment wider than code | `tidy` |
//! | every arrow in `ARCHITECTURE.md` is used | `arrows` |
//! | every relative link in the documentation leads somewhere, every anchor to a heading | `links` |
//! | every file that a comment or a page cites is there | `citations` |
//! | no comment of a public item is a word that repeats its name | `comments` |
//! | a change is one line of `CHANGELOG.md` | `tidy` |
//! | fuzz targets are checked under the workspace's profile, so that what is checked once is not checked again | `fuzz` |
//! | a crate can be built from its package: its manifest is whole, nothing is included from outside its folder | `package` |

#[cfg(test)]
mod advisory;
#[cfg(test)]
mod arrows;
#[cfg(test)]
mod citations;
#[cfg(test)]
mod comments;
#[cfg(test)]
mod determinism;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod licence;
#[cfg(test)]
mod links;
#[cfg(test)]
mod package;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod tree;
