//! An HTTP server on loopback that gives the answers of a test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server answers.
pub(crate) enum Answer {
    File(Vec<u8>),
    NotFound,
    /// Nothing, for as long as the client waits.
    Silence,
    /// The beginning of a file of this size. The client waits for the rest.
    Size(u64),
    /// A file, without the byte that should follow: the server closes the connection.
    CutShort(Vec<u8>),
}

/// A server that gives the answers of the test, and knows what it was asked for.
pub(crate) struct Scripted {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub(crate) fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
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
        self.asked.lock().unwrap().clone()
    }
}

fn reply(mut stream: TcpStream, log: &Mutex<Vec<String>>, answer: &dyn Fn(&str) -> Answer) {
    let mut lines = BufReader::new(stream.try_clone().unwrap())
        .lines()
        .map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    log.lock().unwrap().push(path.clone());
    let mut is_cut_short = false;
    let (status, size, body) = match answer(&path) {
        Answer::File(bytes) => ("200 OK", bytes.len() as u64, bytes),
        Answer::NotFound => ("404 Not Found", 0, Vec::new()),
        Answer::CutShort(bytes) => {
            is_cut_short = true;
            ("200 OK", bytes.len() as u64 + 1, bytes)
        }
        Answer::Size(size) => ("200 OK", size, vec![0; 100_000]),
        Answer::Silence => {
            // Until the client closes.
            let _ = stream.read(&mut [0; 100]);
            return;
        }
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
    if size > body.len() as u64 && !is_cut_short {
        let _ = stream.read(&mut [0; 100]);
    }
}
