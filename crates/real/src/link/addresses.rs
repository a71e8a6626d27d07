//! Which addresses a link's two ends have, also where links stand inside links.
//!
//! ```text
//! 100.64.0.0/10, for use between networks (RFC 6598), as in Mahimahi
//! 100.64.0.0/16             a link's block:  .0.1 its outside, .0.2 its inside, where the command runs
//!   100.64.32.0/19          a link inside it:  .32.1 outside, .32.2 inside
//!     100.64.36.0/22        ... and so on, five deep, seven side by side
//! ```
//!
//! Both devices of a link carry their address with the whole block's prefix. So everything inside, however
//! deep, is reached through its outside device by longest prefix match, and no address is ever translated.
//!
//! IPv6 addresses are the same numbers behind `fd66:7277:6c6e::/96`, a unique local prefix (RFC 4193).

use std::net::{Ipv4Addr, Ipv6Addr};

/// All links' addresses.
const POOL: Block = Block { base: 0x6440_0000, prefix: 10 };
/// A link that stands in no other has one of 64 blocks of this size.
pub const ROOT_PREFIX: u8 = 16;
/// A link inside another has an eighth of that one's block.
const STEP: u8 = 3;
/// The smallest block.
const LEAST_PREFIX: u8 = 28;
/// Where IPv6 addresses begin.
const V6: u128 = 0xfd66_7277_6c6e << 80;

/// The device inside a namespace.
pub const INNER_DEVICE: &str = "framewire";

/// The addresses of one link and of all links inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    base: u32,
    prefix: u8,
}

impl Block {
    /// The block that `address` with a mask of `prefix` bits lies in.
    pub fn around(address: Ipv4Addr, prefix: u8) -> Block {
        let mask = mask(prefix);
        Block { base: address.to_bits() & mask, prefix }
    }

    /// The address of the side where the servers are.
    pub fn outside(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base + 1)
    }

    /// The address of the side where the command runs.
    pub fn inside(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base + 2)
    }

    /// How many leading bits all its addresses share.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// The network mask.
    pub fn mask(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(mask(self.prefix))
    }

    /// Whether the two have an address in common.
    pub fn overlaps(&self, other: &Block) -> bool {
        let common = mask(self.prefix.min(other.prefix));
        self.base & common == other.base & common
    }

    /// The blocks a link may take that stands in a link with the block `parent`, or in none.
    pub fn candidates(parent: Option<Block>) -> impl Iterator<Item = Block> {
        let (within, prefix, first) = match parent {
            None => (POOL, ROOT_PREFIX, 0),
            // The first eighth holds the parent's own two addresses.
            Some(parent) => (parent, parent.prefix + STEP, 1),
        };
        let count = if prefix > LEAST_PREFIX { 0 } else { 1 << (prefix - within.prefix) };
        let size = 1u32 << (32 - prefix);
        (first..count).map(move |index| Block { base: within.base + index * size, prefix })
    }

    /// What its outside device is called: `fw5`, and `fw5.1` for a link inside it. No two blocks share a
    /// name, and no device's name is taken twice: making the device makes sure of the block.
    pub fn device(&self) -> String {
        let index = |prefix: u8, bits: u8| self.base >> (32 - prefix) & ((1 << bits) - 1);
        let root = format!("fw{}", index(ROOT_PREFIX, ROOT_PREFIX - POOL.prefix));
        let deeper = (ROOT_PREFIX + STEP..=self.prefix).step_by(usize::from(STEP));
        deeper.fold(root, |name, prefix| format!("{name}.{}", index(prefix, STEP)))
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

/// An IPv4 address of ours as IPv6.
pub fn v6(address: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(V6 | u128::from(address.to_bits()))
}

/// A block's prefix length in IPv6.
pub fn v6_prefix(prefix: u8) -> u8 {
    96 + prefix
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nth(parent: Option<Block>, index: usize) -> Block {
        Block::candidates(parent).nth(index).unwrap()
    }

    #[test]
    fn the_addresses_of_nested_links() {
        let root = nth(None, 0);
        assert_eq!(
            (root.outside().to_string(), root.inside().to_string()),
            ("100.64.0.1".into(), "100.64.0.2".into())
        );
        assert_eq!((root.device(), root.mask().to_string()), ("fw0".into(), "255.255.0.0".into()));
        let child = nth(Some(root), 0);
        assert_eq!((child.outside().to_string(), child.device()), ("100.64.32.1".into(), "fw0.1".into()));
        assert_eq!(nth(Some(child), 6).device(), "fw0.1.7");
        assert_eq!(nth(None, 63).inside().to_string(), "100.127.0.2");
        assert_eq!(Block::around("100.64.33.7".parse().unwrap(), 19), child);
        assert_eq!(v6(root.inside()).to_string(), "fd66:7277:6c6e::6440:2");
    }

    #[test]
    fn five_links_nest_and_a_sixth_does_not() {
        let mut deepest = nth(None, 5);
        for _ in 0..4 {
            deepest = nth(Some(deepest), 2);
        }
        assert_eq!((deepest.prefix(), deepest.device().as_str()), (28, "fw5.3.3.3.3"));
        assert_eq!(Block::candidates(Some(deepest)).count(), 0);
        assert!(deepest.device().len() < 16, "an interface's name has at most 15 characters");
    }

    proptest! {
        #[test]
        fn a_block_holds_its_links_and_nothing_of_its_neighbours(path in prop::collection::vec(0usize..7, 1..5)) {
            let mut block = nth(None, path[0]);
            for &index in &path[1..] {
                let siblings: Vec<_> = Block::candidates(Some(block)).collect();
                let child = siblings[index];
                prop_assert!(block.overlaps(&child) && siblings.iter().filter(|s| s.overlaps(&child)).count() == 1);
                let own = [block.outside(), block.inside()].map(|address| Block::around(address, 32));
                prop_assert!(!own.iter().any(|own| own.overlaps(&child)));
                prop_assert_ne!(block.device(), child.device());
                prop_assert_eq!(Block::around(child.inside(), child.prefix()), child);
                block = child;
            }
        }
    }
}
