//! As much HTTP as the page needs: on loopback, from a browser that we started.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Largest body that is read: the account of a cell takes some 500 kB.
const LARGEST: usize = 32 << 20;

/// A request whose answer is awaited.
pub struct Request {
    /// Such as `/next`.
    pub path: String,
    /// What was posted.
    pub body: Vec<u8>,
    stream: TcpStream,
}

/// Accepts connections, each read on a thread of its own: a browser opens some in advance and may never use
/// them.
pub fn serve(listener: TcpListener) -> Receiver<Request> {
    let (requests, incoming) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let requests = requests.clone();
            // It ends with the connection, and with what is not HTTP.
            std::thread::spawn(move || read(stream, &requests));
        }
    });
    incoming
}

fn read(stream: TcpStream, requests: &Sender<Request>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let path = line.split(' ').nth(1).ok_or(io::ErrorKind::InvalidData)?.to_owned();
        let mut length = 0;
        while line.len() > 2 {
            line.clear();
            reader.read_line(&mut line)?;
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
            }
        }
        if length > LARGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request = Request { path, body, stream: stream.try_clone()? };
        requests.send(request).map_err(|_| io::ErrorKind::BrokenPipe)?;
    }
}

impl Request {
    /// Answers it.
    pub fn answer(mut self, kind: &str, body: &[u8]) -> io::Result<()> {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        self.stream.write_all(&[head.as_bytes(), body].concat())
    }

    /// Answers it with JSON.
    pub fn json(self, value: &serde_json::Value) -> io::Result<()> {
        self.answer("application/json", value.to_string().as_bytes())
    }
}
