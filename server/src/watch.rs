//! What the server sees of the browser: whether it asked for the profile, and when somebody last asked for anything.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// Time for a browser that followed the link to ask for the profile. The public UI asks after 1 to 3 s; a page that may
/// not reach this machine, or that did not load, never does.
pub(super) const PROFILE_TIME: Duration = Duration::from_secs(10);

/// Time without a request after which the server ends: a working day. The UI asks for sources when the user wants to
/// see them. Time in which the machine sleeps does not count (CLOCK_MONOTONIC, clock_gettime(2)).
pub const IDLE_TIME: Duration = Duration::from_secs(8 * 60 * 60);

/// What the server notices of a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserNotice {
    /// It was led to the UI, and does not ask for the profile.
    Blocked,
    /// It does not reach the UI, and shows the viewer.
    Unreachable,
}

#[derive(Clone, Copy, Debug)]
struct WatchState {
    has_followed_link: bool,
    has_asked_for_profile: bool,
    has_fallen_back: bool,
    last_request: Instant,
}

/// Written by requests, read by the server.
#[derive(Debug)]
pub(super) struct Watch(watch::Sender<WatchState>);

impl Watch {
    pub(super) fn new() -> Watch {
        Watch(watch::Sender::new(WatchState {
            has_followed_link: false,
            has_asked_for_profile: false,
            has_fallen_back: false,
            last_request: Instant::now(),
        }))
    }

    /// A request came, or was answered.
    pub(super) fn request(&self) {
        self.0.send_modify(|seen| seen.last_request = Instant::now());
    }

    /// A browser was led to the UI.
    pub(super) fn link(&self) {
        self.0.send_modify(|seen| seen.has_followed_link = true);
    }

    /// The profile was asked for, or the permission to.
    pub(super) fn profile(&self) {
        self.0.send_modify(|seen| seen.has_asked_for_profile = true);
    }

    /// A browser does not reach the UI, and shows the viewer.
    pub(super) fn fallback(&self) {
        self.0.send_modify(|seen| seen.has_fallen_back = true);
    }

    /// Ends with what the user should know of the browser; else never.
    pub(super) async fn notice(&self, time: Duration) -> BrowserNotice {
        tokio::select! {
            () = self.is_blocked(time) => BrowserNotice::Blocked,
            () = self.has_fallen_back() => BrowserNotice::Unreachable,
        }
    }

    /// Ends where a browser shows the viewer instead of the UI; else never.
    async fn has_fallen_back(&self) {
        if self.0.subscribe().wait_for(|seen| seen.has_fallen_back).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends where a browser has followed the link, and the profile is not asked for within `time`; else never.
    async fn is_blocked(&self, time: Duration) {
        let mut seen = self.0.subscribe();
        let followed = seen.wait_for(|seen| seen.has_followed_link).await.is_ok();
        let asked = timeout(time, seen.wait_for(|seen| seen.has_asked_for_profile)).await;
        if !followed || asked.is_ok() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends when no request came for `time`; never for `None`.
    pub(super) async fn is_idle(&self, time: Option<Duration>) {
        let Some(time) = time else {
            return std::future::pending().await;
        };
        loop {
            let end = self.0.borrow().last_request + time;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time goes on by itself where all wait.
    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(test)
    }

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_browser_that_never_asks_for_the_profile_is_noticed() {
        run(async {
            let watch = Watch::new();
            assert!(timeout(SHORT, watch.is_blocked(SHORT)).await.is_err(), "nobody came");
            watch.link();
            assert!(timeout(SHORT, watch.is_blocked(LONG)).await.is_err(), "it has time");
            assert!(timeout(LONG, watch.is_blocked(SHORT)).await.is_ok());
            watch.profile();
            assert!(timeout(2 * SHORT, watch.is_blocked(Duration::ZERO)).await.is_err());
        });
    }

    #[test]
    fn a_browser_that_shows_the_viewer_instead_is_noticed() {
        run(async {
            let watch = Watch::new();
            watch.link();
            assert!(timeout(SHORT, watch.notice(LONG)).await.is_err(), "it has time");
            watch.fallback();
            assert_eq!(watch.notice(LONG).await, BrowserNotice::Unreachable);
        });
    }

    #[test]
    fn a_server_that_is_asked_is_not_idle() {
        run(async {
            let watch = Watch::new();
            assert!(timeout(SHORT, watch.is_idle(Some(LONG))).await.is_err());
            assert!(timeout(SHORT, watch.is_idle(None)).await.is_err());
            assert!(timeout(LONG, watch.is_idle(Some(SHORT))).await.is_ok());
            // Before the request: between the two, the thread may wait for a CPU.
            let start = Instant::now();
            watch.request();
            watch.is_idle(Some(SHORT)).await;
            assert!(start.elapsed() >= SHORT);
        });
    }
}
