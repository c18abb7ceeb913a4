//! Signals while neither the recorder nor the server handles them: they are noted, so that an extra Ctrl-C never costs a profile that is
//! being written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::exit::Failure;

/// Whether the user wants sprof to end. Before [`Interrupt::watch`], signals end the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    seen: Arc<AtomicBool>,
}

impl Interrupt {
    /// From here on SIGINT, SIGTERM and SIGHUP do not end the process. Nor does SIGXFSZ: a file that grows past `ulimit -f`
    /// is then an error of the write (EFBIG, write(2)), which has a fallback.
    pub(crate) fn watch() -> Result<Interrupt, Failure> {
        Interrupt::register().map_err(|error| Failure::failed(format_args!("cannot watch for signals: {error}")))
    }

    fn register() -> io::Result<Interrupt> {
        let seen = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, seen.clone())?;
        }
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(Interrupt { seen })
    }

    /// True after one of these signals.
    pub(crate) fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}
