use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Servers that give the answers of a test, and what was asked and said.
struct Answers {
    dir: tempfile::TempDir,
    log: Arc<Mutex<Vec<String>>>,
}

type Answer = fn(&FileRequest<'_>, &mut FetchProgress<'_>) -> Result<(), FetchError>;

impl Answers {
    fn new() -> Answers {
        Answers {
            dir: tempfile::tempdir().unwrap(),
            log: Arc::default(),
        }
    }

    fn debuginfod(&self, variables: &[(&str, &str)], answers: &[(&'static str, Answer)]) -> Debuginfod {
        let cache = self.dir.path().join("cache");
        let mut all: HashMap<String, OsString> = HashMap::new();
        all.insert("DEBUGINFOD_CACHE_PATH".to_owned(), cache.into());
        all.insert("DEBUGINFOD_RETRY_LIMIT".to_owned(), "0".into());
        all.extend(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).into())),
        );
        let answers = answers.to_vec();
        let log = self.log.clone();
        let fetch = move |request: &FileRequest<'_>, progress: &mut FetchProgress<'_>| {
            log.lock().unwrap().push(request.url.to_owned());
            let answer = answers.iter().find(|(server, _)| request.url.starts_with(server));
            answer.map_or(Err(FetchError::Absent), |(_, answer)| answer(request, progress))
        };
        let log = self.log.clone();
        let watcher = move |download: Download<'_>| {
            match download {
                Download::Failed { reason, .. } => log.lock().unwrap().push(reason.to_owned()),
                Download::Absent { .. } => log.lock().unwrap().push("absent".to_owned()),
                Download::Progress { .. } | Download::Over => {}
            }
            true
        };
        Debuginfod::from_env(&move |name| all.get(name).cloned(), Box::new(fetch), Box::new(watcher)).unwrap()
    }

    fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// The files of all builds.
    fn files(&self) -> Vec<String> {
        let folders = fs::read_dir(self.dir.path().join("cache")).unwrap().flatten();
        let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten();
        files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

/// This test, which has a build id.
fn own() -> (PathBuf, BuildId) {
    let path = std::env::current_exe().unwrap();
    let bytes = fs::read(&path).unwrap();
    let id = object::File::parse(&*bytes)
        .unwrap()
        .build_id()
        .unwrap()
        .map(<[u8]>::to_vec);
    (path, BuildId(id.unwrap()))
}

fn give(request: &FileRequest<'_>, bytes: &[u8]) -> Result<(), FetchError> {
    let mut file = request.file;
    file.write_all(bytes).map_err(FetchError::Disk)
}

fn gives_own(request: &FileRequest<'_>, _: &mut FetchProgress<'_>) -> Result<(), FetchError> {
    give(request, &fs::read(own().0).unwrap())
}

fn gives_half(request: &FileRequest<'_>, _: &mut FetchProgress<'_>) -> Result<(), FetchError> {
    let bytes = fs::read(own().0).unwrap();
    give(request, &bytes[..bytes.len() / 2])
}

fn fails(request: &FileRequest<'_>, _: &mut FetchProgress<'_>) -> Result<(), FetchError> {
    give(request, b"half")?;
    Err(FetchError::Server("ended the connection early".to_owned()))
}

fn never_ends(_: &FileRequest<'_>, progress: &mut FetchProgress<'_>) -> Result<(), FetchError> {
    // It lasts for seconds, in which other tests have the CPU.
    while progress(10, None) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(FetchError::Ended)
}

fn is_huge(_: &FileRequest<'_>, progress: &mut FetchProgress<'_>) -> Result<(), FetchError> {
    assert!(!progress(10, Some(3 << 30)));
    Err(FetchError::Ended)
}

#[test]
fn servers_are_asked_in_order_and_the_first_that_has_the_file_is_the_last() {
    let (path, id) = own();
    let answers = Answers::new();
    let servers = [(
        "DEBUGINFOD_URLS",
        "https://a/x/ https://b ima:enforcing https://b https://c",
    )];
    let debuginfod = answers.debuginfod(&servers, &[("https://b", gives_own)]);
    assert!(debuginfod.asks_for_signatures());
    let found = debuginfod.debug_info(&id, "own").unwrap();
    assert_eq!(fs::read(&found).unwrap(), fs::read(path).unwrap());
    let hex = id.to_hex();
    let asked = ["https://a/x", "https://b"].map(|server| format!("{server}/buildid/{hex}/debuginfo"));
    assert_eq!(answers.said(), asked);
    assert_eq!(answers.files(), ["debuginfo"]);
    // What is here needs no server.
    assert_eq!(debuginfod.debug_info(&id, "own"), Some(found));
    assert_eq!(answers.said(), [""; 0]);
}

#[test]
fn what_all_servers_lack_is_noted_and_what_one_may_have_is_not() {
    let (_, id) = own();
    let answers = Answers::new();
    let servers = [("DEBUGINFOD_URLS", "https://a https://b")];
    let debuginfod = answers.debuginfod(&servers, &[("https://a", fails)]);
    for _ in 0..2 {
        assert_eq!(debuginfod.debug_info(&id, "own"), None);
        assert_eq!(answers.files(), [""; 0]);
    }
    let hex = id.to_hex();
    let (a, b) = (
        format!("https://a/buildid/{hex}/debuginfo"),
        format!("https://b/buildid/{hex}/debuginfo"),
    );
    let failed = "a ended the connection early; sprof asks it for nothing more for 10 minutes";
    assert_eq!(answers.said(), [&a, &b, failed, &b, "absent"]);
    debuginfod.servers.lock().unwrap()[0].state.pass_pause();
    assert_eq!(debuginfod.debug_info(&id, "own"), None);
    assert_eq!(answers.said(), [&a, &b, failed]);

    let debuginfod = answers.debuginfod(&servers, &[]);
    for _ in 0..2 {
        assert_eq!(debuginfod.debug_info(&id, "own"), None);
    }
    assert_eq!(answers.said(), [&a, &b, "absent", "absent"]);
    assert_eq!(answers.files(), ["debuginfo"]);
}

#[test]
fn a_file_that_is_cut_or_of_another_build_is_not_kept() {
    let (_, id) = own();
    for (answer, asked_id) in [(gives_half as Answer, &id), (gives_own, &BuildId(vec![1; 20]))] {
        let answers = Answers::new();
        let debuginfod = answers.debuginfod(&[("DEBUGINFOD_URLS", "https://a")], &[("https://a", answer)]);
        assert_eq!(debuginfod.debug_info(asked_id, "own"), None);
        let said = answers.said();
        assert!(said[1].starts_with("a sent a file of another build"), "{said:?}");
        assert_eq!(answers.files(), [""; 0]);
    }
}

#[test]
fn a_damaged_file_in_the_folder_is_downloaded_again() {
    let (path, id) = own();
    let answers = Answers::new();
    let debuginfod = answers.debuginfod(&[("DEBUGINFOD_URLS", "https://a")], &[("https://a", gives_own)]);
    let folder = answers.dir.path().join("cache").join(id.to_hex());
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("debuginfo"), "damaged").unwrap();
    let found = debuginfod.debug_info(&id, "own").unwrap();
    assert_eq!(fs::read(found).unwrap(), fs::read(path).unwrap());
}

#[test]
fn what_is_here_does_not_wait_for_a_download() {
    let (path, id) = own();
    let answers = Answers::new();
    let mut debuginfod = answers.debuginfod(&[("DEBUGINFOD_URLS", "https://a")], &[("https://a", never_ends)]);
    let is_wanted = Arc::new(AtomicBool::new(true));
    let watched = is_wanted.clone();
    debuginfod.watcher = Box::new(move |_| watched.load(Ordering::Relaxed));
    let folder = answers.dir.path().join("cache").join(id.to_hex());
    fs::create_dir_all(&folder).unwrap();
    fs::copy(path, folder.join("debuginfo")).unwrap();
    std::thread::scope(|scope| {
        let download = scope.spawn(|| debuginfod.debug_info(&BuildId(vec![1; 20]), "other"));
        while answers.said().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(debuginfod.debug_info(&id, "own"), Some(folder.join("debuginfo")));
        assert!(!download.is_finished());
        is_wanted.store(false, Ordering::Relaxed);
        assert_eq!(download.join().unwrap(), None);
    });
}

#[test]
fn a_server_that_never_ends_or_sends_too_much_is_limited() {
    let (_, id) = own();
    let said = |variables: &[(&str, &str)], answer: Answer| {
        let answers = Answers::new();
        let all = [variables, &[("DEBUGINFOD_URLS", "https://a")]].concat();
        let debuginfod = answers.debuginfod(&all, &[("https://a", answer)]);
        assert_eq!(debuginfod.debug_info(&id, "own"), None);
        assert_eq!(answers.files(), [""; 0]);
        answers.said().pop().unwrap()
    };
    let large = said(&[], is_huge);
    assert_eq!(
        large,
        "it has 3072 MiB, more than 2048: DEBUGINFOD_MAXSIZE=BYTES allows more"
    );
    let large = said(&[("DEBUGINFOD_MAXSIZE", "1000")], is_huge);
    assert_eq!(large, "it is larger than DEBUGINFOD_MAXSIZE allows");
    let slow = said(&[("DEBUGINFOD_TIMEOUT", "1")], never_ends);
    assert!(slow.starts_with("a did not answer in time"), "{slow}");
    let long = said(&[("DEBUGINFOD_MAXTIME", "1")], never_ends);
    assert_eq!(long, "it takes more seconds than DEBUGINFOD_MAXTIME allows");
}

#[test]
fn a_failed_server_is_asked_again_as_often_as_the_user_says() {
    let (_, id) = own();
    let answers = Answers::new();
    let variables = [("DEBUGINFOD_URLS", "https://a"), ("DEBUGINFOD_RETRY_LIMIT", "2")];
    let debuginfod = answers.debuginfod(&variables, &[("https://a", fails)]);
    assert_eq!(debuginfod.debug_info(&id, "own"), None);
    assert_eq!(answers.said().len(), 4);
    assert_eq!(debuginfod.debug_info(&id, "own"), None);
    assert_eq!(answers.said(), [""; 0]);
}

#[test]
fn after_an_interruption_no_server_is_asked() {
    let (_, id) = own();
    let answers = Answers::new();
    let mut debuginfod = answers.debuginfod(
        &[("DEBUGINFOD_URLS", "https://a https://b")],
        &[("https://", never_ends)],
    );
    debuginfod.watcher = Box::new(|_| false);
    for _ in 0..2 {
        assert_eq!(debuginfod.debug_info(&id, "own"), None);
    }
    assert_eq!(answers.said().len(), 1);
    assert_eq!(answers.files(), [""; 0]);
}

#[test]
fn a_server_may_be_a_folder_and_sources_have_any_name() {
    let (_, id) = own();
    let answers = Answers::new();
    let served = answers.dir.path().join("served");
    let source = served.join(format!("buildid/{}/source/src/a b.c", id.to_hex()));
    fs::create_dir_all(source.parent().unwrap()).unwrap();
    fs::write(&source, "text").unwrap();
    for host in ["", "localhost"] {
        let url = format!("https://a file://{host}{}", served.display());
        let debuginfod = answers.debuginfod(&[("DEBUGINFOD_URLS", &url)], &[]);
        let found = debuginfod.source(&id, "/src/a b.c").unwrap();
        assert_eq!(fs::read_to_string(&found).unwrap(), "text");
        assert_eq!(
            answers.said(),
            [format!("https://a/buildid/{}/source/src/a%20b.c", id.to_hex())]
        );
        assert_eq!(debuginfod.debug_info(&id, "own"), None);
        answers.said();
        fs::remove_dir_all(answers.dir.path().join("cache")).unwrap();
    }
}

#[test]
fn headers_are_read_from_the_file_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("headers");
    fs::write(&path, "X-Team: 5\n\n  \nAuthorization: Bearer a:b\n").unwrap();
    let headers = read_headers(&path).unwrap();
    let expected = [("X-Team", "5"), ("Authorization", "Bearer a:b")];
    assert_eq!(
        headers,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    fs::write(&path, "X-Team 5\n").unwrap();
    assert!(read_headers(&path).is_err());
}
