//! Admission control: which connection attempts begin a handshake, decided on the first packet, before
//! anything is spent on it.
//!
//! ```text
//!   a first packet --> Admission::decide --> Retry    crowded, and the address may be forged: show first that you are there
//!                                     '--> Refuse   a limit is reached
//!                                     '--> Enter    a Pass: a stranger's place, given back when it is dropped
//!                                            '--> Pass::admit, once the token was shown: a guest's place
//! ```
//!
//! Two rules keep strangers from shutting others out. Addresses that were not checked get the first half of
//! whatever is to be had (turns, places, an address's own turns and places); the other half is for those who
//! have shown that they receive what is sent to them, so forged addresses use up nobody's share. And one
//! address gets its own share only, without touching the turns of the others.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use units::Time;
use wire::Refusal;

use super::limits::{Limits, RateLimiter};
use super::tally::Tally;

/// Why somebody did not get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The token is wrong.
    Token,
    /// The server does not do what was asked for.
    Role,
    /// Another version of the protocol.
    Version,
    /// What was said is no greeting.
    Malformed,
    /// Nothing was said in time.
    Late,
    /// The handshake came to nothing: the client gave up, did not believe us, or was none.
    Handshake,
    /// As many guests as there may be ([`Limits::guests`]).
    Guests,
    /// As many strangers as there may be ([`Limits::strangers`]).
    Strangers,
    /// As many connections of one address as there may be ([`Limits::per_address`]).
    Address,
    /// As much memory as connections may take ([`Limits::memory`]).
    Memory,
    /// As many handshakes a second as there may be ([`Limits::handshakes`]).
    Handshakes,
    /// As many handshakes a second of one address as there may be ([`Limits::handshakes_per_address`]).
    AddressHandshakes,
    /// Anything else.
    Other,
}

impl Reason {
    /// All of them, in order.
    pub const ALL: [Reason; 13] = [
        Reason::Token,
        Reason::Role,
        Reason::Version,
        Reason::Malformed,
        Reason::Late,
        Reason::Handshake,
        Reason::Guests,
        Reason::Strangers,
        Reason::Address,
        Reason::Memory,
        Reason::Handshakes,
        Reason::AddressHandshakes,
        Reason::Other,
    ];

    /// A name for programs.
    pub fn label(self) -> &'static str {
        match self {
            Reason::Token => "token",
            Reason::Role => "role",
            Reason::Version => "version",
            Reason::Malformed => "malformed",
            Reason::Late => "late",
            Reason::Handshake => "handshake",
            Reason::Guests => "connections",
            Reason::Strangers => "opening",
            Reason::Address => "connections_per_address",
            Reason::Memory => "memory",
            Reason::Handshakes => "handshakes",
            Reason::AddressHandshakes => "handshakes_per_address",
            Reason::Other => "other",
        }
    }
}

impl Reason {
    /// Why, in words for those who run the server; [`Other`](Reason::Other) has none of its own.
    pub(crate) fn words(self, limits: &Limits) -> String {
        match self {
            Reason::Token => "the token is wrong".to_owned(),
            Reason::Role => "it wants what this server does not do".to_owned(),
            Reason::Version => "it speaks another version".to_owned(),
            Reason::Malformed => "it talks nonsense".to_owned(),
            Reason::Late => "nobody said what for".to_owned(),
            Reason::Handshake => "the handshake was not finished".to_owned(),
            Reason::Guests => format!("there are {} connections already", limits.guests),
            Reason::Strangers => {
                format!("there are {} connections without a token already", limits.strangers)
            }
            Reason::Address => format!("its address has {} connections already", limits.per_address),
            Reason::Memory => format!("connections may take {} MB in all", limits.memory / 1_000_000),
            Reason::Handshakes => format!("more than {} handshakes a second", limits.handshakes),
            Reason::AddressHandshakes => {
                format!("more than {} handshakes a second of its address", limits.handshakes_per_address)
            }
            Reason::Other => String::new(),
        }
    }
}

impl From<Refusal> for Reason {
    fn from(refusal: Refusal) -> Reason {
        match refusal {
            Refusal::Version => Reason::Version,
            Refusal::Token => Reason::Token,
            Refusal::Busy => Reason::Guests,
            Refusal::Role => Reason::Role,
            Refusal::Malformed => Reason::Malformed,
            Refusal::Late => Reason::Late,
            // The last three are said to those who were admitted.
            Refusal::Other | Refusal::Exists | Refusal::NoSpace | Refusal::TooLong => Reason::Other,
        }
    }
}

/// What to do with a connection attempt.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Ask it to show that it receives what is sent to its address (RFC 9000 section 8.1.2).
    Retry,
    /// Turn it away.
    Refuse(Reason),
    /// Begin its handshake; the pass is to live as long as the connection.
    Enter(Pass),
}

/// Whom a limit per address is for: an IPv4 address, or the /64 that an IPv6 customer has to himself (RFC
/// 6177).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Caller(IpAddr);

impl Caller {
    fn of(address: IpAddr) -> Caller {
        Caller(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            v4 => v4,
        })
    }
}

/// What is known of one caller.
#[derive(Debug)]
struct Account {
    rate: RateLimiter,
    connections: usize,
}

#[derive(Debug)]
struct State {
    rate: RateLimiter,
    /// Callers with a connection, or who have used turns that are not back yet: those who came within a
    /// second. Nobody gets in here without a turn of the common rate, which bounds it.
    accounts: BTreeMap<Caller, Account>,
    strangers: usize,
    guests: usize,
}

impl State {
    /// Bytes that all who are here may make us hold.
    fn memory(&self) -> usize {
        self.guests * Limits::MEMORY + self.strangers * Limits::STRANGER_MEMORY
    }

    fn forget(&mut self, now: Time) {
        self.accounts.retain(|_, account| account.connections > 0 || !account.rate.is_full(now));
    }
}

/// How many connections there are, and what they may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Connections that have shown the token.
    pub guests: usize,
    /// Connections that have not yet.
    pub strangers: usize,
    /// Bytes that all of them may make us hold at most.
    pub memory: usize,
}

/// Decides who may connect, and keeps count of who is connected and who tried to be.
#[derive(Debug)]
pub(crate) struct Admission {
    pub limits: Limits,
    pub tally: Tally,
    state: Mutex<State>,
}

impl Admission {
    pub fn new(limits: Limits) -> Admission {
        let rate = RateLimiter::new(limits.handshakes);
        let state = State { rate, accounts: BTreeMap::new(), strangers: 0, guests: 0 };
        Admission { limits, tally: Tally::default(), state: Mutex::new(state) }
    }

    /// Decides on a connection attempt from `address`; `may_retry` if it may be asked to show that it is
    /// there.
    pub fn decide(self: &Arc<Admission>, now: Time, address: IpAddr, may_retry: bool) -> Verdict {
        let limits = &self.limits;
        let caller = Caller::of(address);
        let mut state = self.state();
        state.forget(now);
        if may_retry && self.is_crowded(&mut state, now, caller) {
            return Verdict::Retry;
        }
        let account = state.accounts.get_mut(&caller);
        if account.as_ref().is_some_and(|account| account.connections >= limits.per_address) {
            return Verdict::Refuse(Reason::Address);
        }
        if account.is_some_and(|account| !account.rate.is_open(now)) {
            return Verdict::Refuse(Reason::AddressHandshakes);
        }
        if state.strangers >= limits.strangers {
            return Verdict::Refuse(Reason::Strangers);
        }
        if state.memory() + Limits::STRANGER_MEMORY > limits.memory {
            return Verdict::Refuse(Reason::Memory);
        }
        if !state.rate.take(now) {
            return Verdict::Refuse(Reason::Handshakes);
        }
        let fresh = || Account { rate: RateLimiter::new(limits.handshakes_per_address), connections: 0 };
        let account = state.accounts.entry(caller).or_insert_with(fresh);
        account.rate.take(now);
        account.connections += 1;
        state.strangers += 1;
        Verdict::Enter(Pass { admission: self.clone(), caller, guest: false })
    }

    /// Half of something is used up: what is left is for those whose address is known to be theirs.
    fn is_crowded(&self, state: &mut State, now: Time, caller: Caller) -> bool {
        let own = state.accounts.get_mut(&caller).is_some_and(|account| {
            account.rate.is_busy(now) || 2 * account.connections >= self.limits.per_address
        });
        own || state.rate.is_busy(now) || 2 * state.strangers >= self.limits.strangers
    }

    /// How many are here.
    pub fn occupancy(&self) -> Occupancy {
        let state = self.state();
        Occupancy { guests: state.guests, strangers: state.strangers, memory: state.memory() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this")
    }
}

/// A place at a server: a stranger's, then a guest's. Dropped, it is free again.
#[derive(Debug)]
pub(crate) struct Pass {
    admission: Arc<Admission>,
    caller: Caller,
    guest: bool,
}

impl Pass {
    /// Who gave it.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Turns a stranger's place into a guest's.
    ///
    /// # Errors
    /// Why there is none.
    pub fn admit(&mut self) -> Result<(), Reason> {
        let limits = self.admission.limits;
        let mut state = self.admission.state();
        if state.guests >= limits.guests {
            return Err(Reason::Guests);
        }
        if state.memory() - Limits::STRANGER_MEMORY + Limits::MEMORY > limits.memory {
            return Err(Reason::Memory);
        }
        state.guests += 1;
        state.strangers -= 1;
        self.guest = true;
        Ok(())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        let kind = if self.guest { &mut state.guests } else { &mut state.strangers };
        *kind -= 1;
        if let Some(account) = state.accounts.get_mut(&self.caller) {
            account.connections -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(limits: Limits) -> Arc<Admission> {
        Arc::new(Admission::new(limits))
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    /// What came of some attempts.
    struct Tries {
        passes: Vec<Pass>,
        refused: Vec<Reason>,
    }

    /// Attempts of one address whose clients show that they are there when they are asked.
    fn try_often(admission: &Arc<Admission>, at: Time, who: IpAddr, times: usize) -> Tries {
        let (mut passes, mut refused) = (Vec::new(), Vec::new());
        for _ in 0..times {
            match admission.decide(at, who, false) {
                Verdict::Enter(pass) => passes.push(pass),
                Verdict::Refuse(reason) => refused.push(reason),
                Verdict::Retry => unreachable!("it was said that it may not be asked"),
            }
        }
        Tries { passes, refused }
    }

    #[test]
    fn one_address_gets_its_share_and_leaves_the_others_theirs() {
        let limits =
            Limits { handshakes: 20, handshakes_per_address: 5, per_address: 100, ..Limits::default() };
        let admission = admission(limits);
        let now = Time::from_secs(1);
        let Tries { passes: greedy, refused } = try_often(&admission, now, address(1), 1_000);
        assert_eq!((greedy.len(), refused[0]), (5, Reason::AddressHandshakes));
        let Tries { passes: others, refused } = try_often(&admission, now, address(2), 5);
        assert_eq!((others.len(), refused.len()), (5, 0));
        // A second later all turns are back, its own too.
        assert_eq!(try_often(&admission, Time::from_secs(2), address(1), 9).passes.len(), 5);
    }

    #[test]
    fn one_address_has_only_so_many_connections() {
        let admission = admission(Limits { per_address: 2, handshakes_per_address: 9, ..Limits::default() });
        let now = Time::from_secs(1);
        let Tries { mut passes, refused } = try_often(&admission, now, address(1), 3);
        assert_eq!((passes.len(), refused), (2, vec![Reason::Address]));
        // A guest's place counts as well as a stranger's, and whoever goes makes room.
        passes[0].admit().unwrap();
        assert_eq!(try_often(&admission, now, address(1), 1).refused, [Reason::Address]);
        passes.pop();
        assert_eq!(try_often(&admission, now, address(1), 1).passes.len(), 1);
        assert_eq!(admission.occupancy(), Occupancy { guests: 1, strangers: 0, memory: Limits::MEMORY });
    }

    #[test]
    fn neighbours_of_one_ipv6_network_are_one() {
        let [a, b, c]: [IpAddr; 3] =
            ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"].map(|a| a.parse().unwrap());
        assert_eq!(Caller::of(a), Caller::of(b));
        assert_ne!(Caller::of(a), Caller::of(c));
        assert_eq!(Caller::of("::ffff:192.0.2.1".parse().unwrap()), Caller::of(address(1)));
    }

    #[test]
    fn forged_addresses_use_up_half_of_everything_at_most() {
        let admission = admission(Limits { handshakes: 20, strangers: 8, ..Limits::default() });
        let now = Time::from_secs(1);
        // They never answer, so each holds a stranger's place until its time is over.
        let passes: Vec<Pass> = (0..200)
            .filter_map(|k| match admission.decide(now, address(k), true) {
                Verdict::Enter(pass) => Some(pass),
                _ => None,
            })
            .collect();
        assert_eq!(passes.len(), 4, "half of the strangers' places");
        let Tries { passes: honest, refused } = try_often(&admission, now, address(250), 1);
        assert_eq!((honest.len(), refused), (1, vec![]));
        // Nor does forging somebody's address take all of that one's turns and places.
        let admission = self::admission(Limits { handshakes_per_address: 4, ..Limits::default() });
        let forged = (0..200).filter_map(|_| match admission.decide(now, address(9), true) {
            Verdict::Enter(pass) => Some(pass),
            _ => None,
        });
        let forged: Vec<Pass> = forged.collect();
        assert_eq!(forged.len(), 3);
        assert_eq!(try_often(&admission, now, address(9), 1).passes.len(), 1);
    }

    #[test]
    fn memory_bounds_how_many_may_come() {
        let memory = 2 * Limits::MEMORY + Limits::STRANGER_MEMORY;
        let admission = admission(Limits { memory, guests: 100, per_address: 100, ..Limits::default() });
        let now = Time::from_secs(1);
        let mut guests = Vec::new();
        for last in 0..2 {
            let mut pass = try_often(&admission, now, address(last), 1).passes.pop().unwrap();
            pass.admit().unwrap();
            guests.push(pass);
        }
        let mut third = try_often(&admission, now, address(3), 1).passes.pop().unwrap();
        assert_eq!(third.admit(), Err(Reason::Memory));
        assert_eq!(try_often(&admission, now, address(4), 1).refused, [Reason::Memory]);
        assert!(admission.occupancy().memory <= memory);
        guests.pop();
        assert_eq!(third.admit(), Ok(()));
    }

    #[test]
    fn accounts_are_forgotten_once_their_turns_are_back() {
        let admission = admission(Limits::default());
        for k in 0..1_000u32 {
            let at = Time::from_millis(1_000 + 100 * u64::from(k));
            drop(admission.decide(at, IpAddr::V4(k.into()), false));
            assert!(admission.state().accounts.len() <= 40, "{}", admission.state().accounts.len());
        }
    }

    #[test]
    fn reasons_are_numbered_as_they_are_listed() {
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
    }
}
