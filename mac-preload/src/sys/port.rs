//! The recorder's port, and the message to it.

use core::ffi::{c_char, c_int, c_uint};
use core::ptr;

use super::{getenv, now_ns};
use crate::wire;

/// A name of a right.
type Name = c_uint;

const NONE: Name = 0;
/// `MACH_PORT_DEAD`: a right to a port that is gone.
const DEAD: Name = !0;

// mach/message.h.
const SEND: c_int = 1;
const RECEIVE: c_int = 2;
const SEND_TIMEOUT: c_int = 0x10;
const SEND_INTERRUPT: c_int = 0x40;
const RECEIVE_TIMEOUT: c_int = 0x100;
const RECEIVE_INTERRUPT: c_int = 0x400;
const RECEIVE_INTERRUPTED: c_int = 0x1000_4005;
const COPY_SEND: u8 = 19;
const MAKE_SEND_ONCE: u8 = 21;
const COMPLEX: u32 = 0x8000_0000;
/// `MACH_PORT_RIGHT_RECEIVE`.
const RECEIVE_RIGHT: c_uint = 1;

#[link(name = "System")]
unsafe extern "C" {
    static mach_task_self_: Name;
    static bootstrap_port: Name;
    fn bootstrap_look_up(launchd: Name, service: *const c_char, port: *mut Name) -> c_int;
    fn mach_msg(
        message: *mut Message,
        options: c_int,
        send: u32,
        receive: u32,
        from: Name,
        ms: u32,
        notify: Name,
    ) -> c_int;
    fn mach_port_deallocate(task: Name, name: Name) -> c_int;
    fn mach_port_mod_refs(task: Name, name: Name, right: c_uint, delta: c_int) -> c_int;
    fn mach_ports_lookup(task: Name, ports: *mut *mut Name, count: *mut c_uint) -> c_int;
    fn mach_reply_port() -> Name;
    fn mach_vm_deallocate(task: Name, address: u64, size: u64) -> c_int;
}

/// `mach_msg_header_t`, `mach_msg_body_t`, one `mach_msg_port_descriptor_t`, and the hello. The answer, which has at
/// most a header and a trailer, is received over it.
#[repr(C)]
struct Message {
    bits: u32,
    size: u32,
    remote: Name,
    local: Name,
    voucher: Name,
    id: i32,
    descriptors: u32,
    task: Name,
    pad: [u8; 6],
    disposition: u8,
    kind: u8,
    hello: [u8; wire::BYTES],
    /// `MAX_TRAILER_SIZE` is 68.
    trailer: [u8; 72],
}

/// The bytes of a message that are sent.
const SENT: u32 = (core::mem::offset_of!(Message, hello) + wire::BYTES) as u32;
const _: () = assert!(SENT == 64 && size_of::<Message>() == 136);

/// This task.
fn own() -> Name {
    // SAFETY: reads an integer that libSystem sets before this library starts, and again in a fork.
    unsafe { mach_task_self_ }
}

fn give_back(name: Name) {
    // SAFETY: takes names alone. Gives back one reference that this library has got; a name that is null or dead is an
    // error.
    let _ = unsafe { mach_port_deallocate(own(), name) };
}

/// A right to send to the recorder, given back when dropped.
pub(crate) struct Recorder(Name);

impl Drop for Recorder {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

impl Recorder {
    fn new(name: Name) -> Option<Recorder> {
        (name != NONE && name != DEAD).then_some(Recorder(name))
    }

    /// The right that the task has inherited.
    pub(crate) fn of_slot() -> Option<Recorder> {
        let (mut list, mut count) = (ptr::null_mut(), 0);
        // SAFETY: writes a pointer and a count to two locals that outlive the call.
        let code = unsafe { mach_ports_lookup(own(), &raw mut list, &raw mut count) };
        if code != 0 || list.is_null() {
            return None;
        }
        // SAFETY: the kernel has mapped `count` names at `list` into this process, and nothing else refers to them.
        let names = unsafe { core::slice::from_raw_parts(list, count as usize) };
        let mut found = NONE;
        for (index, name) in names.iter().enumerate() {
            match index {
                wire::SLOT => found = *name,
                _ => give_back(*name),
            }
        }
        let bytes = u64::from(count) * size_of::<Name>() as u64;
        // SAFETY: `list` was mapped for this call, has `bytes` bytes, and is not used after this.
        let _ = unsafe { mach_vm_deallocate(own(), list.addr() as u64, bytes) };
        Recorder::new(found)
    }

    /// The right that launchd has under the name in the environment.
    pub(crate) fn of_name() -> Option<Recorder> {
        const NAME: [u8; wire::NAME.len() + 1] = {
            let mut name = [0; wire::NAME.len() + 1];
            let mut at = 0;
            while at < wire::NAME.len() {
                name[at] = wire::NAME.as_bytes()[at];
                at += 1;
            }
            name
        };
        // SAFETY: `NAME` is a C string. Nothing else runs yet that could change the environment.
        let service = unsafe { getenv(NAME.as_ptr().cast()) };
        if service.is_null() {
            return None;
        }
        let mut name = NONE;
        // SAFETY: reads an integer that libSystem has set and that nothing changes afterwards.
        let launchd = unsafe { bootstrap_port };
        // SAFETY: `service` is a C string of the environment; writes a port name to `name`, a local that outlives the
        // call.
        let code = unsafe { bootstrap_look_up(launchd, service, &raw mut name) };
        Recorder::new(name).filter(|_| code == 0)
    }

    /// Sends a hello with the right to this task, and waits until the recorder has it. Returns whether it was sent.
    pub(crate) fn ask(&self, hello: [u8; wire::BYTES]) -> bool {
        // SAFETY: takes nothing, and returns a port name.
        let reply = unsafe { mach_reply_port() };
        if reply == NONE {
            return false;
        }
        let mut message = Message {
            bits: COMPLEX | u32::from(COPY_SEND) | u32::from(MAKE_SEND_ONCE) << 8,
            size: SENT,
            remote: self.0,
            local: reply,
            voucher: NONE,
            id: 0,
            descriptors: 1,
            task: own(),
            pad: [0; 6],
            disposition: COPY_SEND,
            // `MACH_MSG_PORT_DESCRIPTOR`.
            kind: 0,
            hello,
            trailer: [0; 72],
        };
        let options = SEND | SEND_TIMEOUT | SEND_INTERRUPT;
        // SAFETY: the kernel reads `SENT` bytes of the message, which has more, and writes none.
        let sent = unsafe { mach_msg(&raw mut message, options, SENT, 0, NONE, wire::SEND_MS, NONE) };
        // What was not sent has come back, with further references to this task's own rights. They cost one number
        // each.
        if sent == 0 {
            wait(&mut message, reply);
        }
        // SAFETY: takes names alone. Ends the port that was made above, which is not used after this.
        let _ = unsafe { mach_port_mod_refs(own(), reply, RECEIVE_RIGHT, -1) };
        sent == 0
    }
}

/// Waits for a message, whatever it says. The kernel also sends one when the recorder ends.
fn wait(message: &mut Message, reply: Name) {
    let end_ns = now_ns().saturating_add(u64::from(wire::WAIT_MS) * 1_000_000);
    loop {
        let left_ms = end_ns.saturating_sub(now_ns()).div_ceil(1_000_000);
        let ms = u32::try_from(left_ms).unwrap_or(0).min(wire::WAIT_MS);
        let options = RECEIVE | RECEIVE_TIMEOUT | RECEIVE_INTERRUPT;
        // SAFETY: the kernel writes at most the size of `message`, which outlives the call.
        let code = unsafe { mach_msg(message, options, 0, size_of::<Message>() as u32, reply, ms, NONE) };
        // A signal. Without its own count of the time, a program with a fast timer would wait forever.
        if code != RECEIVE_INTERRUPTED || ms == 0 {
            return;
        }
    }
}
