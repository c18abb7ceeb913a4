//! Signals outside of the recording itself (the recorder takes them while the program runs) and of the server: they are
//! noted, so that a Ctrl-C too many never costs a profile that is being written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// Whether the user wants us to come to an end. By default nothing is watched: signals end the process as ever.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    seen: Arc<AtomicBool>,
}

impl Interrupt {
    /// From here on SIGINT, SIGTERM and SIGHUP do not end the process. Nor does SIGXFSZ: a file that grows past `ulimit -f`
    /// is then an error of the write (EFBIG, write(2)), which has a fallback.
    pub(crate) fn watch() -> io::Result<Interrupt> {
        let seen = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, seen.clone())?;
        }
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(Interrupt { seen })
    }

    /// True once one of them came.
    pub(crate) fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}
