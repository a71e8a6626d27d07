//! Who watches which stream at which delay, as far as the files that are fetched tell.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use ingest::Class;
use real::http::Client;
use units::{Span, Time};
use wire::Watchers;

use crate::operations::Exposition;

/// Whoever has fetched a playlist within this time watches. A player fetches that of a stream that goes on
/// once a segment (RFC 8216 section 6.3.4), and segments have 10 s at most: three of them.
const OF_LATE: Span = Span::from_secs(30);
/// Viewers that are told apart at most, of all streams together: 2 MB.
const MOST: usize = 10_000;
/// Between two looks for those that have left, where there is no room.
const LOOK_EVERY: Span = Span::from_secs(1);

/// Somebody: an address, and a digest of what the player calls itself.
type Somebody = (IpAddr, u64);

/// Counts clients of each class of each stream.
///
/// A segment does not tell which delay it is watched at, since classes share segments; a playlist does.
pub struct Audience {
    classes: Vec<Class>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When each fetched a playlist of each class last, by stream.
    streams: BTreeMap<String, BTreeMap<(usize, Somebody), Time>>,
    held: usize,
    looked: Time,
    overlooked: u64,
}

impl Audience {
    /// Viewers of streams with these classes.
    pub fn new(classes: Vec<Class>) -> Audience {
        Audience { classes, state: Mutex::default() }
    }

    /// A client got the file at a path.
    pub fn fetched(&self, now: Time, client: &Client<'_>, path: &str) {
        let Some((stream, class)) = self.playlist(path) else { return };
        let mut hasher = DefaultHasher::new();
        client.agent.hash(&mut hasher);
        self.lock().note(now, stream, (class, (client.address, hasher.finish())));
    }

    /// Viewers of each class of a stream of late.
    pub fn of(&self, now: Time, stream: &str) -> Vec<Watchers> {
        let state = self.lock();
        let all = state.streams.get(stream);
        let of = |(class, Class { delay, .. }): (usize, &Class)| {
            let viewers =
                all.into_iter().flatten().filter(|((of, _), at)| *of == class && is_late(now, **at));
            let delay_ms = u32::try_from(delay.as_nanos() / 1_000_000).unwrap_or(u32::MAX);
            Watchers { delay_ms, viewers: viewers.count() as u32 }
        };
        self.classes.iter().enumerate().map(of).collect()
    }

    /// The same for a page: what each class is called, and how many watch it.
    pub fn listing(&self, watchers: &[Watchers]) -> String {
        let of = |(class, watchers): (&Class, &Watchers)| {
            serde_json::json!({
                "name": class.name, "delay_s": class.delay.as_secs_f64(), "viewers": watchers.viewers,
            })
        };
        let classes: Vec<serde_json::Value> = self.classes.iter().zip(watchers).map(of).collect();
        serde_json::json!({ "classes": classes }).to_string()
    }

    /// Shows the viewers of these streams.
    pub fn show(&self, now: Time, streams: &[String], out: &mut Exposition<'_>) {
        let mut values = Vec::new();
        for stream in streams {
            for (class, watchers) in self.classes.iter().zip(self.of(now, stream)) {
                let labels = vec![("name", stream.clone()), ("delay", class.name.clone())];
                values.push((labels, f64::from(watchers.viewers)));
            }
        }
        let help = "Clients that fetched a playlist within 30 s, by stream and delay";
        out.gauge("framewire_viewers", help, None, values);
        let help = "Fetches of playlists by clients beyond those that are told apart";
        out.counter("framewire_viewers_overlooked", help, None, vec![(vec![], self.lock().overlooked)]);
    }

    /// The stream and the class whose playlist a path is.
    fn playlist<'a>(&self, path: &'a str) -> Option<(&'a str, usize)> {
        let (stream, file) = path.strip_prefix('/')?.split_once('/')?;
        let name = file.strip_suffix(".m3u8").or_else(|| file.strip_suffix(".mpd"))?;
        Some((stream, self.classes.iter().position(|class| class.name == name)?))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this")
    }
}

fn is_late(now: Time, at: Time) -> bool {
    now - at <= OF_LATE
}

impl State {
    fn note(&mut self, now: Time, stream: &str, viewer: (usize, Somebody)) {
        if let Some(at) = self.streams.get_mut(stream).and_then(|viewers| viewers.get_mut(&viewer)) {
            *at = now;
            return;
        }
        if self.held >= MOST && now - self.looked >= LOOK_EVERY {
            self.forget(now);
        }
        if self.held >= MOST {
            self.overlooked += 1;
            return;
        }
        self.streams.entry(stream.to_owned()).or_default().insert(viewer, now);
        self.held += 1;
    }

    /// Forgets who has left.
    fn forget(&mut self, now: Time) {
        for viewers in self.streams.values_mut() {
            viewers.retain(|_, at| is_late(now, *at));
        }
        self.streams.retain(|_, viewers| !viewers.is_empty());
        self.held = self.streams.values().map(BTreeMap::len).sum();
        self.looked = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audience() -> Audience {
        Audience::new(Class::list(&[Span::from_millis(500), Span::from_secs(30)]).unwrap())
    }

    fn counts(audience: &Audience, now: u64, stream: &str) -> Vec<(u32, u32)> {
        let watchers = audience.of(Time::from_secs(now), stream);
        watchers.iter().map(|watchers| (watchers.delay_ms, watchers.viewers)).collect()
    }

    #[test]
    fn those_are_counted_who_fetch_playlists_and_are_gone_after_half_a_minute() {
        let audience = audience();
        let fetch = |at: u64, last: u8, agent: &str, path: &str| {
            let client = Client { address: [192, 0, 2, last].into(), agent };
            audience.fetched(Time::from_secs(at), &client, path);
        };
        fetch(0, 1, "a", "/stage/live.m3u8");
        fetch(1, 1, "b", "/stage/live.mpd");
        fetch(2, 2, "a", "/stage/live.m3u8");
        fetch(2, 2, "a", "/stage/30s.m3u8");
        for other in ["/stage/5s.m3u8", "/stage/live.json", "/stage/s/000001-1.m4s", "/live.m3u8", "/"] {
            fetch(2, 3, "c", other);
        }
        fetch(20, 1, "a", "/stage/live.m3u8");
        assert_eq!(counts(&audience, 25, "stage"), [(500, 3), (30_000, 1)]);
        assert_eq!(counts(&audience, 40, "stage"), [(500, 1), (30_000, 0)]);
        assert_eq!(counts(&audience, 25, "elsewhere"), [(500, 0), (30_000, 0)]);
        let listing = audience.listing(&audience.of(Time::from_secs(40), "stage"));
        let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
        assert_eq!(listing["classes"][0], serde_json::json!({"name": "live", "delay_s": 0.5, "viewers": 1}));
    }

    #[test]
    fn a_crowd_is_bounded_and_those_who_leave_make_room() {
        let audience = audience();
        let fetch = |at: u64, who: u32, stream: &str| {
            let client = Client { address: IpAddr::from(who.to_be_bytes()), agent: "" };
            audience.fetched(Time::from_secs(at), &client, &format!("/{stream}/live.m3u8"));
        };
        (0..2 * MOST as u32).for_each(|who| fetch(100, who, &format!("s{}", who % 10)));
        let held = || audience.lock().held;
        assert_eq!((held(), audience.lock().overlooked), (MOST, MOST as u64));
        assert_eq!(counts(&audience, 100, "s3")[0].1, MOST as u32 / 10);
        fetch(131, 7_000_000, "s3");
        assert_eq!((held(), audience.lock().streams.len()), (1, 1));
        assert_eq!(counts(&audience, 131, "s3")[0].1, 1);
    }
}
