//! The head of a request: its first line and the few fields that matter here.

use super::range::Wanted;

/// A request as far as it is understood here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// `GET`, or `HEAD` where no body is asked for.
    Get(Get),
    /// Another method.
    Other,
    /// Bytes that are no request.
    Malformed,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Get {
    /// Without its query.
    pub path: String,
    pub body: bool,
    pub range: Option<Wanted>,
    /// What the client calls itself.
    pub agent: String,
    /// Whether the connection serves another request after this one (RFC 9112 section 9.3).
    pub persistent: bool,
}

/// Reads a request's head (RFC 9112 sections 3 and 5) and says how many bytes it has. `None` while it is not
/// complete.
pub(super) fn parse(bytes: &[u8]) -> Option<(Request, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let request = std::str::from_utf8(&bytes[..end]).ok().and_then(of_head).unwrap_or(Request::Malformed);
    Some((request, end + 4))
}

fn of_head(head: &str) -> Option<Request> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let version = version.strip_prefix("HTTP/1.")?;
    if words.next().is_some() || !target.starts_with('/') || head.contains(['\0']) {
        return None;
    }
    let fields = Fields::read(lines)?;
    let body = match method {
        "GET" => true,
        "HEAD" => false,
        _ => return Some(Request::Other),
    };
    Some(Request::Get(Get {
        path: target.split(['?', '#']).next().unwrap_or_default().to_owned(),
        body,
        range: fields.range().filter(|_| body),
        agent: fields.agent.to_owned(),
        persistent: version == "1" && !fields.closes,
    }))
}

#[derive(Debug, Default)]
struct Fields<'a> {
    range: Option<&'a str>,
    /// Two ranges, or a condition on one: no version of a file has a name here, so that none matches.
    whole: bool,
    closes: bool,
    agent: &'a str,
}

impl<'a> Fields<'a> {
    /// `None` where a line is no field. A line that continues the one before is none (RFC 9112 section 5.2).
    fn read(lines: impl Iterator<Item = &'a str>) -> Option<Fields<'a>> {
        let mut fields = Fields::default();
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let token = |c: char| c.is_ascii_graphic() && !"\"(),/:;<=>?@[\\]{}".contains(c);
            if name.is_empty() || !name.chars().all(token) || value.contains(['\r', '\n']) {
                return None;
            }
            fields.take(&name.to_ascii_lowercase(), value.trim_matches([' ', '\t']));
        }
        Some(fields)
    }

    fn take(&mut self, name: &str, value: &'a str) {
        match name {
            "range" => self.whole |= self.range.replace(value).is_some(),
            "if-range" => self.whole = true,
            "user-agent" => self.agent = value,
            "connection" => {
                self.closes |= value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"));
            }
            // A body is not read: what follows it would be taken for the next request.
            "content-length" => self.closes |= value != "0",
            "transfer-encoding" | "upgrade" => self.closes = true,
            _ => {}
        }
    }

    fn range(&self) -> Option<Wanted> {
        self.range.filter(|_| !self.whole).and_then(Wanted::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(text: &str) -> Option<Get> {
        match parse(text.as_bytes())? {
            (Request::Get(get), taken) if taken == text.len() => Some(get),
            _ => None,
        }
    }

    #[test]
    fn a_connection_stays_unless_either_side_can_not_have_it() {
        let stays = |head: &str| get(&format!("GET / {head}\r\n\r\n")).unwrap().persistent;
        assert!(stays("HTTP/1.1") && stays("HTTP/1.1\r\nConnection: keep-alive\r\nContent-Length: 0"));
        assert!(!stays("HTTP/1.0") && !stays("HTTP/1.0\r\nConnection: keep-alive"));
        for field in
            ["connection: Close", "Connection: x, close", "Content-Length: 3", "Transfer-Encoding: x"]
        {
            assert!(!stays(&format!("HTTP/1.1\r\n{field}")), "{field}");
        }
    }

    #[test]
    fn a_range_counts_once_and_without_condition() {
        let range = |fields: &str| get(&format!("GET / HTTP/1.1{fields}\r\n\r\n")).unwrap().range;
        assert_eq!(range("\r\nrange: bytes=1-2"), Wanted::parse("bytes=1-2"));
        assert_eq!(range("\r\nRange: bytes=1-2\r\nRange: bytes=1-2"), None);
        assert_eq!(range("\r\nIf-Range: \"x\"\r\nRange: bytes=1-2"), None);
        assert_eq!(get("HEAD / HTTP/1.1\r\nRange: bytes=1-2\r\n\r\n").unwrap().range, None);
    }

    #[test]
    fn clients_say_what_they_are_or_nothing() {
        let agent = |fields: &str| get(&format!("GET / HTTP/1.1{fields}\r\n\r\n")).unwrap().agent;
        assert_eq!(agent("\r\nuser-agent:  Player/1.0 (x) "), "Player/1.0 (x)");
        assert_eq!(agent(""), "");
    }

    #[test]
    fn what_is_no_field_is_no_request() {
        for line in ["Host", " Host: x", "Ho st: x", ": x", "A: b\nC: d"] {
            let text = format!("GET / HTTP/1.1\r\n{line}\r\n\r\n");
            assert_eq!(parse(text.as_bytes()).unwrap().0, Request::Malformed, "{line:?}");
        }
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHost: x\r\n"), None, "not complete");
    }
}
