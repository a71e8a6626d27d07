//! The HTTP client that object stores are asked with: HTTP/1.1 over TLS 1.3 by ring, like every connection
//! here, to whom this machine trusts. Proxies are not used.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use object_store::client::{
    ClientConfigKey, ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a connection may take to be made.
const DIAL: Duration = Duration::from_secs(5);
/// How long a request and its answer may take.
const WITHIN: Duration = Duration::from_secs(30);
/// How long a connection is kept for the next request; servers end theirs after five seconds and more.
const KEPT: Duration = Duration::from_secs(4);
/// Connections that are kept of a server.
const MOST_KEPT: usize = 8;
/// The longest answer, bytes: files are asked for in parts of a megabyte.
const MOST: usize = 16 << 20;

type Cause = Box<dyn Error + Send + Sync>;
type Sender = SendRequest<HttpRequestBody>;

/// Makes clients for stores.
#[derive(Debug)]
pub(super) struct Dialler;

impl HttpConnector for Dialler {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let tls = TlsConnector::from(Arc::new(
            tls().map_err(|error| object_store::Error::Generic { store: "TLS", source: Box::new(error) })?,
        ));
        Ok(HttpClient::new(Client { tls, plain, kept: Mutex::default() }))
    }
}

fn tls() -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    // A system's store may hold certificates of forms not known here; the others are still good.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

struct Client {
    tls: TlsConnector,
    /// Whether http:// is allowed.
    plain: bool,
    /// Connections without a request, by server, each with the time since when.
    kept: Mutex<BTreeMap<String, Vec<(Instant, Sender)>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("plain", &self.plain).finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let late = |_| HttpError::new(HttpErrorKind::Timeout, io::Error::from(io::ErrorKind::TimedOut));
        timeout(WITHIN, self.answer(request)).await.map_err(late)?
    }
}

impl Client {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let failed = |cause: Cause| HttpError::new_boxed(HttpErrorKind::Request, cause);
        let server = request.uri().clone();
        let mut request = of_origin(request).map_err(failed)?;
        let key = format!("{:?}//{:?}", server.scheme(), server.authority());
        let (mut sender, response) = loop {
            let (mut sender, fresh) = match self.take(&key) {
                Some(sender) => (sender, false),
                None => {
                    let dialled =
                        timeout(DIAL, self.dial(&server)).await.unwrap_or_else(|late| Err(late.into()));
                    (dialled.map_err(|cause| HttpError::new_boxed(HttpErrorKind::Connect, cause))?, true)
                }
            };
            match sender.try_send_request(request).await {
                Ok(response) => break (sender, response),
                // The server has ended a connection before anything was sent on it.
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !fresh => request = unsent,
                    _ => return Err(failed(Box::new(error.into_error()))),
                },
            }
        };
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MOST).collect().await.map_err(failed)?.to_bytes();
        if sender.ready().await.is_ok() {
            self.keep(key, sender);
        }
        let body = Full::new(body).map_err(|never| match never {});
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }

    fn take(&self, key: &str) -> Option<Sender> {
        let mut kept = self.kept.lock().expect("nothing panics while it holds this");
        let of_server = kept.get_mut(key)?;
        of_server.retain(|(since, sender)| since.elapsed() < KEPT && !sender.is_closed());
        of_server.pop().map(|(_, sender)| sender)
    }

    fn keep(&self, key: String, sender: Sender) {
        let mut kept = self.kept.lock().expect("nothing panics while it holds this");
        let of_server = kept.entry(key).or_default();
        if of_server.len() < MOST_KEPT {
            of_server.push((Instant::now(), sender));
        }
    }

    async fn dial(&self, server: &Uri) -> Result<Sender, Cause> {
        let secure = server.scheme() == Some(&Scheme::HTTPS);
        if !secure && !self.plain {
            return Err(format!("{server} is not encrypted; AWS_ALLOW_HTTP=true allows that").into());
        }
        let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = server.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        if secure {
            let name = ServerName::try_from(host.to_owned())?;
            begin(self.tls.connect(name, stream).await?).await
        } else {
            begin(stream).await
        }
    }
}

/// Begins to speak HTTP on a connection.
async fn begin(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Sender, Cause> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Why it ends is said to whoever has a request on it.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// The request as it is sent to an origin: the host in its field, the path alone on the first line (RFC 9112
/// section 3.2.1).
fn of_origin(mut request: HttpRequest) -> Result<Request<HttpRequestBody>, Cause> {
    let uri = request.uri();
    let authority = uri.authority().ok_or("a request without a host")?.as_str();
    let host = HeaderValue::from_str(authority.rsplit('@').next().unwrap_or(authority))?;
    let target: Uri = uri.path_and_query().map_or("/", |target| target.as_str()).parse()?;
    request.headers_mut().entry(HOST).or_insert(host);
    *request.uri_mut() = target;
    Ok(request)
}
