//! Signals while neither the recorder nor the server handles them: they are noted, so that an extra Ctrl-C never costs
//! a profile that is being written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::exit::Failure;

/// Whether the user wants sprof to end. Before [`Interrupt::watch`], signals end the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    seen: Arc<AtomicBool>,
    is_watching: bool,
}

impl Interrupt {
    /// From here on SIGINT, SIGTERM and SIGHUP do not end the process. Nor does SIGXFSZ: a file that grows past `ulimit
    /// -f` is then an error of the write (EFBIG, write(2)), which has a fallback.
    pub(crate) fn watch() -> Result<Interrupt, Failure> {
        Interrupt::register(false)
    }

    /// This one if it watches, else one that watches from here on, where a second signal ends the process.
    pub(crate) fn or_watch(&self) -> Result<Interrupt, Failure> {
        match self.is_watching {
            true => Ok(self.clone()),
            false => Interrupt::register(true),
        }
    }

    fn register(second_ends: bool) -> Result<Interrupt, Failure> {
        Interrupt::try_register(second_ends)
            .map_err(|error| Failure::failed(format_args!("cannot watch for signals: {error}")))
    }

    fn try_register(second_ends: bool) -> io::Result<Interrupt> {
        let seen = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Actions run in the order of their registration: this one runs before the first signal sets the flag.
            if second_ends {
                flag::register_conditional_default(signal, seen.clone())?;
            }
            flag::register(signal, seen.clone())?;
        }
        flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(Interrupt {
            seen,
            is_watching: true,
        })
    }

    /// True after a signal that ends sprof.
    pub(crate) fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}
