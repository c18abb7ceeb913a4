//! An HTTP server on loopback that gives the answers of a test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server answers.
pub(crate) enum Answer {
    File(Vec<u8>),
    NotFound,
    Forbidden,
    /// Nothing, for as long as the client waits.
    Silence,
    /// The beginning of a file of this size. The client waits for the rest.
    Size(u64),
    /// A file, without the byte that should follow: the server closes the connection.
    CutShort(Vec<u8>),
    /// Zeros, for as long as the client reads.
    Endless,
    /// Another address.
    Redirect(String),
}

/// A server that gives the answers of the test, and knows what it was asked for.
pub(crate) struct Scripted {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<AskedRequest>>>,
}

struct AskedRequest {
    path: String,
    /// All lines, in lower case.
    head: String,
}

impl Scripted {
    pub(crate) fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<AskedRequest>>> = Arc::default();
        let (log, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || reply(stream, &log, &*answer));
            }
        });
        Scripted { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|asked| asked.path.clone())
            .collect()
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|asked| asked.head.clone())
            .collect()
    }
}

fn reply(mut stream: TcpStream, log: &Mutex<Vec<AskedRequest>>, answer: &dyn Fn(&str) -> Answer) {
    let mut lines = BufReader::new(stream.try_clone().unwrap())
        .lines()
        .map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    log.lock().unwrap().push(AskedRequest {
        path: path.clone(),
        head: head.join("\n").to_lowercase(),
    });
    let mut is_cut_short = false;
    let (status, size, body) = match answer(&path) {
        Answer::File(bytes) => ("200 OK", bytes.len() as u64, bytes),
        Answer::NotFound => ("404 Not Found", 0, Vec::new()),
        Answer::Forbidden => ("403 Forbidden", 0, Vec::new()),
        Answer::CutShort(bytes) => {
            is_cut_short = true;
            ("200 OK", bytes.len() as u64 + 1, bytes)
        }
        Answer::Size(size) => ("200 OK", size, vec![0; 100_000]),
        Answer::Endless => {
            let _ = write_head(&mut stream, "200 OK", "");
            while stream.write_all(&[0; 4096]).is_ok() {}
            return;
        }
        Answer::Redirect(to) => {
            let _ = write_head(
                &mut stream,
                "302 Found",
                &format!("Location: {to}\r\nContent-Length: 0\r\n"),
            );
            return;
        }
        Answer::Silence => {
            // Until the client closes.
            let _ = stream.read(&mut [0; 100]);
            return;
        }
    };
    let _ = write_head(&mut stream, status, &format!("Content-Length: {size}\r\n"));
    let _ = stream.write_all(&body);
    if size > body.len() as u64 && !is_cut_short {
        let _ = stream.read(&mut [0; 100]);
    }
}

fn write_head(stream: &mut TcpStream, status: &str, headers: &str) -> std::io::Result<()> {
    stream.write_all(format!("HTTP/1.1 {status}\r\n{headers}Connection: close\r\n\r\n").as_bytes())
}
