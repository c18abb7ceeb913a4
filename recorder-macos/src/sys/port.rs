//! Rights to ports, and what calls to ports return.

use mach2::kern_return::{KERN_INVALID_ARGUMENT, KERN_SUCCESS, KERN_TERMINATED, kern_return_t};
use mach2::mach_port::{mach_port_deallocate, mach_port_mod_refs};
use mach2::message::MACH_SEND_INVALID_DEST;
use mach2::port::{MACH_PORT_RIGHT_SEND, mach_port_t};
use mach2::traps::mach_task_self;

use crate::kernel::MachError;

/// One reference to a right to send, once or always, given back when dropped. The same port always has the same name,
/// as long as a reference is held.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Port(mach_port_t);

impl Port {
    /// Takes over a reference that a call has just returned.
    pub(super) fn own(name: mach_port_t) -> Port {
        Port(name)
    }

    pub(super) fn name(&self) -> mach_port_t {
        self.0
    }

    /// Another reference to the same right.
    pub(super) fn duplicate(&self) -> Result<Port, MachError> {
        // SAFETY: takes names alone. Adds one reference to a right that this object holds.
        check(unsafe { mach_port_mod_refs(own(), self.0, MACH_PORT_RIGHT_SEND, 1) })?;
        Ok(Port(self.0))
    }
}

/// The port of this process.
pub(super) fn own() -> mach_port_t {
    // SAFETY: reads an integer that libSystem sets before main and that nothing changes afterwards.
    unsafe { mach_task_self() }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: takes names alone. Gives back one reference that is this object's own; a dead name has references,
        // too.
        let _ = unsafe { mach_port_deallocate(own(), self.0) };
    }
}

/// A thread or task that has ended has no port any more: its calls find a dead name, or no object.
pub(super) fn check(code: kern_return_t) -> Result<(), MachError> {
    match code {
        KERN_SUCCESS => Ok(()),
        KERN_INVALID_ARGUMENT | KERN_TERMINATED | MACH_SEND_INVALID_DEST => Err(MachError::Gone),
        code => Err(MachError::Code(code)),
    }
}
