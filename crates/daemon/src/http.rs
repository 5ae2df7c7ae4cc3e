//! A minimal HTTP/1 server. A client sends a request without a body and gets a response; then the
//! connection is closed.
//!
//! One thread serves all clients and never blocks on any of them. A connection is closed after
//! [`PATIENCE`], and a new connection beyond [`CLIENTS_MAX`] replaces the oldest.

use interleaf_poll_server::{Interest, PollSet, Worker, connection, is_retry, wait};
use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::AsFd as _, unix::net::UnixStream},
    time::{Duration, Instant},
};

/// Maximum number of simultaneous connections.
const CLIENTS_MAX: usize = 16;

/// The longest duration of a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request that is still incomplete after this number of bytes is refused.
const REQUEST_BYTES_MAX: usize = 8192;

/// Maximum number of header fields of a request.
const FIELDS_MAX: usize = 64;

/// The parts of an HTTP request on which the page in the response depends.
pub(super) struct Request<'a> {
    /// The path of the request without its query.
    pub(super) path: &'a str,
    /// The values of all `Accept` fields, separated by commas.
    pub(super) accept: &'a str,
}

/// An HTTP response.
pub(super) struct Page {
    /// The status code and the reason phrase, such as `200 OK`.
    pub(super) status: &'static str,
    /// The media type of the body.
    pub(super) kind: &'static str,
    pub(super) body: String,
}

impl Page {
    pub(super) fn text(status: &'static str, body: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// A running server. Dropping this value stops the server.
pub(super) struct Server {
    address: SocketAddr,
    _worker: Worker,
}

impl Server {
    /// Starts a server at `address`. The function `page` makes the response to each request.
    pub(super) fn start(
        address: SocketAddr,
        page: impl Fn(&Request<'_>) -> Page + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let worker = Worker::start("metrics", move |control| serve(&listener, &control, &page))?;
        Ok(Self { address, _worker: worker })
    }

    /// Returns the address at which the server listens. If port 0 was requested, it has the
    /// assigned port.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

struct Client {
    stream: TcpStream,
    /// The time at which the connection is closed.
    until: Instant,
    received: Vec<u8>,
    /// The response, and the number of its bytes that are already written; `None` until the request
    /// is complete or refused.
    answer: Option<(Vec<u8>, usize)>,
}

fn serve(listener: &TcpListener, control: &UnixStream, page: &dyn Fn(&Request<'_>) -> Page) {
    let mut clients: Vec<Client> = vec![];
    loop {
        let interest = |client: &Client| match client.answer {
            Some(_) => Interest::Write,
            None => Interest::Read,
        };
        let watched = PollSet {
            control: Some(control.as_fd()),
            listener: Some(listener.as_fd()),
            clients: clients.iter().map(|it| (it.stream.as_fd(), interest(it))).collect(),
        };
        let now = Instant::now();
        let next = clients.iter().map(|client| client.until.saturating_duration_since(now)).min();
        // Add one millisecond, so that the deadline of the client has passed when `wait` returns.
        let turn = wait(&watched, next.map(|left| left + Duration::from_millis(1)));
        let Ok(turn) = turn else { return };
        if turn.control {
            return;
        }
        let now = Instant::now();
        turn.retain(&mut clients, |client, is_ready| {
            client.until > now && (!is_ready || client.transfer(page))
        });
        if turn.listener {
            accept(listener, &mut clients);
        }
    }
}

fn accept(listener: &TcpListener, clients: &mut Vec<Client>) {
    let Some(stream) = connection(listener.accept()) else { return };
    if clients.len() >= CLIENTS_MAX {
        clients.remove(0);
    }
    if stream.set_nonblocking(true).is_ok() {
        let until = Instant::now() + PATIENCE;
        clients.push(Client { stream, until, received: vec![], answer: None });
    }
}

impl Client {
    /// Reads bytes of the request or writes bytes of the response, as many as possible without
    /// blocking. Returns true if more bytes are to be transferred.
    fn transfer(&mut self, page: &dyn Fn(&Request<'_>) -> Page) -> bool {
        let done = match &mut self.answer {
            Some((answer, written)) => self.stream.write(&answer[*written..]).map(|count| {
                *written += count;
                *written < answer.len()
            }),
            None => {
                let mut bytes = [0; 1024];
                self.stream.read(&mut bytes).map(|count| {
                    self.received.extend_from_slice(&bytes[..count]);
                    self.answer = answer(&self.received, page).map(|answer| (answer, 0));
                    count > 0
                })
            }
        };
        done.unwrap_or_else(|why| is_retry(&why))
    }
}

/// Returns the response to the request in `received`; `None` if the request is incomplete, and
/// short enough to be continued.
fn answer(received: &[u8], page: &dyn Fn(&Request<'_>) -> Page) -> Option<Vec<u8>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let is_whole = request.parse(received).map(|parsed| parsed.is_complete());
    let mut with_body = true;
    let page = match (is_whole, request.method, request.path) {
        (Ok(false), ..) if received.len() < REQUEST_BYTES_MAX => return None,
        (Ok(true), Some(method @ ("GET" | "HEAD")), Some(path)) => {
            with_body = method == "GET";
            let path = path.split('?').next().unwrap_or_default();
            let accept = accepted(request.headers);
            page(&Request { path, accept: &accept })
        }
        (Ok(true), ..) => Page::text("405 Method Not Allowed", "only GET and HEAD\n"),
        _ => Page::text("400 Bad Request", "this is not a request\n"),
    };
    let Page { status, kind, body } = page;
    let length = body.len();
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    if with_body {
        text += &body;
    }
    Some(text.into_bytes())
}

/// Joins the values of all `Accept` fields with commas.
fn accepted(fields: &[httparse::Header<'_>]) -> String {
    let accept = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("accept"));
    let values: Vec<_> = accept.map(|field| String::from_utf8_lossy(field.value)).collect();
    values.join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::thread;

    fn started() -> Server {
        started_at("127.0.0.1:0")
    }

    fn started_at(address: &str) -> Server {
        let page = |request: &Request<'_>| match request.path {
            "/accept" => Page::text("200 OK", request.accept),
            "/long" => Page::text("200 OK", &"x".repeat(8 << 20)),
            path => Page::text("200 OK", path),
        };
        Server::start(address.parse().unwrap(), page).unwrap()
    }

    fn connect(server: &Server) -> TcpStream {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn request_page(server: &Server, request: &[u8]) -> String {
        let mut stream = connect(server);
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_page_is_answered() {
        let server = started();
        let answer = request_page(&server, b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain"), "{head}");
        assert!(head.contains("\r\nContent-Length: 2\r\n"), "{head}");
        assert_eq!(body, "/a");
        let head = request_page(&server, b"HEAD /a HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 2\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let several = b"GET /accept HTTP/1.1\r\naccept: a/b;q=1\r\nACCEPT: c/d\r\n\r\n";
        assert!(request_page(&server, several).ends_with("\r\n\r\na/b;q=1,c/d"));
        let long = request_page(&server, b"GET /long HTTP/1.0\r\n\r\n");
        assert_eq!(long.split_once("\r\n\r\n").unwrap().1.len(), 8 << 20);
    }

    #[test]
    fn nonsense_is_refused() {
        let server = started();
        let long = format!("GET /{} ", "x".repeat(REQUEST_BYTES_MAX - 6));
        let table: [(&[u8], &str); 4] = [
            (b"POST /a HTTP/1.1\r\n\r\n", "405"),
            (b"\x16\x03\x01\r\n\r\n", "400"),
            (b"GET\r\n\r\n", "400"),
            (long.as_bytes(), "400"),
        ];
        for (request, status) in table {
            let answer = request_page(&server, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
        }
    }

    /// Clients that send nothing, send half a request or do not read are disconnected. More than
    /// [`CLIENTS_MAX`] such clients do not delay the response to another client.
    #[test]
    fn silent_clients_delay_no_other() {
        // No other test binds this address. Therefore no other listener takes the port when the
        // server stops.
        let server = started_at("127.0.0.77:0");
        let mut unread = connect(&server);
        unread.write_all(b"GET /long HTTP/1.1\r\n\r\n").unwrap();
        let mut silent: Vec<_> = (0..3 * CLIENTS_MAX).map(|_| connect(&server)).collect();
        silent.iter_mut().step_by(2).for_each(|half| half.write_all(b"GET /").unwrap());
        assert!(request_page(&server, b"GET /a HTTP/1.1\r\n\r\n").ends_with("/a"));
        // A silent client gets no response: it reads the end of the stream, or an error if the
        // server has discarded unread input.
        assert_eq!(silent[0].read(&mut [0; 10]).unwrap_or(0), 0, "it is let go");
        let address = server.address();
        drop(server);
        // Try to bind again: a process that another test forks keeps the listener open until its
        // exec.
        let until = Instant::now() + Duration::from_secs(20);
        while let Err(why) = TcpListener::bind(address) {
            assert!(
                Instant::now() < until,
                "the listener stays open after the server's end: {why}"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
}
