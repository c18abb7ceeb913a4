//! A program worth recording: four named threads that count the words of all text files below a folder.
//!
//! `reader` walks the tree and reads files, `words-1` and `words-2` split them into words and count, `merger` adds the
//! counts up and keeps the most frequent ones sorted. The whole is repeated until it has taken the given seconds.
//!
//! Usage: `words [FOLDER [SECONDS]]`

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

type Counts = HashMap<String, u64>;

/// Larger files are rarely text, and reading them says little about counting words.
const MAX_FILE_BYTES: u64 = 1 << 20;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".into()));
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);

    let (texts, texts_out) = sync_channel::<String>(16);
    let (counts, counts_out) = sync_channel::<Counts>(16);
    let texts_out = Arc::new(Mutex::new(texts_out));

    let reader = spawn("reader", move || read_until(end, &folder, &texts))?;
    let mut others = Vec::new();
    for name in ["words-1", "words-2"] {
        let (texts, counts) = (texts_out.clone(), counts.clone());
        others.push(spawn(name, move || count_all(&texts, &counts))?);
    }
    drop(counts);
    let merger = spawn("merger", move || merge(&counts_out))?;

    let rounds = join(reader);
    others.into_iter().for_each(join);
    let top = join(merger);
    let mut out = std::io::stdout().lock();
    std::io::Write::write_all(
        &mut out,
        format!("{rounds} rounds; most frequent words: {}\n", top.join(" ")).as_bytes(),
    )
}

fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> std::io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(work)
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Sends the text files below `folder`, again and again; returns how many times it went through.
fn read_until(end: Instant, folder: &Path, texts: &SyncSender<String>) -> u32 {
    let mut rounds = 0;
    while Instant::now() < end {
        if send_folder(end, folder, texts) == 0 {
            break;
        }
        rounds += 1;
    }
    rounds
}

/// Sends the text files below `folder`; returns how many they are. Follows no links, which may lead in circles.
fn send_folder(end: Instant, folder: &Path, texts: &SyncSender<String>) -> u64 {
    let mut sent = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (Ok(kind), path) = (entry.file_type(), entry.path()) else {
            continue;
        };
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if hidden || Instant::now() >= end {
            continue;
        }
        if kind.is_dir() && entry.file_name() != "target" {
            sent += send_folder(end, &path, texts);
        } else if kind.is_file() && entry.metadata().is_ok_and(|meta| meta.len() <= MAX_FILE_BYTES) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            sent += u64::from(texts.send(text).is_ok());
        }
    }
    sent
}

fn count_all(texts: &Mutex<Receiver<String>>, counts: &SyncSender<Counts>) {
    loop {
        let text = texts.lock().ok().and_then(|texts| texts.recv().ok());
        let Some(text) = text else { return };
        if counts.send(count_words(&text)).is_err() {
            return;
        }
    }
}

fn count_words(text: &str) -> Counts {
    let mut counts = Counts::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    counts
}

/// Adds up what comes in, and returns the ten most frequent words.
fn merge(counts: &Receiver<Counts>) -> Vec<String> {
    let mut total = Counts::new();
    let mut top = Vec::new();
    for counts in counts {
        for (word, count) in counts {
            *total.entry(word).or_default() += count;
        }
        top = most_frequent(&total);
    }
    top
}

fn most_frequent(total: &Counts) -> Vec<String> {
    let mut words: Vec<(&String, &u64)> = total.iter().collect();
    words.sort_by_key(|&(word, count)| (std::cmp::Reverse(*count), word));
    words.into_iter().take(10).map(|(word, _)| word.clone()).collect()
}
