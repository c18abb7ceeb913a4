//! The port to which programs announce themselves, and the tasks that they sent. One for this process: whatever reads
//! the memory of a target needs its task.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mach2::bootstrap::{bootstrap_port, bootstrap_register};
use mach2::kern_return::{KERN_FAILURE, KERN_NAME_EXISTS, KERN_SUCCESS, kern_return_t};
use mach2::mach_port::{mach_port_allocate, mach_port_insert_right, mach_port_mod_refs, mach_port_set_attributes};
use mach2::message::{
    MACH_MSG_PORT_DESCRIPTOR, MACH_MSG_SUCCESS, MACH_MSG_TYPE_MAKE_SEND, MACH_MSG_TYPE_PORT_SEND,
    MACH_MSGH_BITS_COMPLEX, MACH_RCV_MSG, MACH_RCV_TIMED_OUT, MACH_RCV_TIMEOUT, mach_msg, mach_msg_audit_trailer_t,
    mach_msg_body_t, mach_msg_destroy, mach_msg_header_t, mach_msg_option_t, mach_msg_port_descriptor_t,
};
use mach2::port::{
    MACH_PORT_LIMITS_INFO, MACH_PORT_LIMITS_INFO_COUNT, MACH_PORT_NULL, MACH_PORT_QLIMIT_MAX, MACH_PORT_RIGHT_RECEIVE,
    mach_port_limits_t, mach_port_name_t, mach_port_t,
};
use mach2::task::task_get_special_port;
use mach2::task_special_ports::TASK_READ_PORT;

use super::port::{Port, check, own};
use super::process;
use crate::kernel::{MachError, PortMessage, Sender};
use crate::processes::wire;

/// Letters at once. The queue reports the rest again.
const MOST_MESSAGES: usize = 64;
/// `MACH_RCV_TRAILER_TYPE(MACH_MSG_TRAILER_FORMAT_0) | MACH_RCV_TRAILER_ELEMENTS(MACH_RCV_TRAILER_AUDIT)`
/// (mach/message.h).
const WITH_AUDIT_TRAILER: mach_msg_option_t = 3 << 24;

unsafe extern "C" {
    /// `mach/mach_traps.h`. Of a right that is none to a task it fails, and asks nobody.
    fn pid_for_task(task: mach_port_name_t, pid: *mut c_int) -> kern_return_t;
}

static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);
/// The port was opened. No task is asked for any more: macOS might ask an administrator.
static WAS_OPENED: AtomicBool = AtomicBool::new(false);

fn listener() -> MutexGuard<'static, Option<Listener>> {
    // Nothing in between can panic.
    LISTENER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True once the port was opened.
pub(super) fn was_opened() -> bool {
    WAS_OPENED.load(Ordering::Acquire)
}

#[derive(Debug)]
struct Listener {
    port: ReceivePort,
    /// Rights to read tasks, by process.
    kept: BTreeMap<i32, Port>,
}

/// A port: the right to receive, and one to send, which have the same name. Both are given back when dropped.
#[derive(Debug)]
struct ReceivePort {
    name: mach_port_t,
    _send: Option<Port>,
}

impl Drop for ReceivePort {
    fn drop(&mut self) {
        // SAFETY: takes names alone. The right to receive is this object's own, and is not used after this.
        let _ = unsafe { mach_port_mod_refs(own(), self.name, MACH_PORT_RIGHT_RECEIVE, -1) };
    }
}

impl ReceivePort {
    fn new() -> Result<ReceivePort, MachError> {
        let mut name = MACH_PORT_NULL;
        // SAFETY: writes a port name to `name`, a local that outlives the call.
        check(unsafe { mach_port_allocate(own(), MACH_PORT_RIGHT_RECEIVE, &raw mut name) })?;
        let mut port = ReceivePort { name, _send: None };
        // SAFETY: takes names alone: makes a right to send to the port that was made above.
        check(unsafe { mach_port_insert_right(own(), name, name, MACH_MSG_TYPE_MAKE_SEND) })?;
        port._send = Some(Port::own(name));
        // Programs that start at the same time wait for a place in the queue. Without this there are 5.
        let mut limits = mach_port_limits_t {
            mpl_qlimit: MACH_PORT_QLIMIT_MAX,
        };
        let (info, count) = ((&raw mut limits).cast(), MACH_PORT_LIMITS_INFO_COUNT);
        // SAFETY: the kernel reads `count` words, the size of `limits`, a local that outlives the call.
        check(unsafe { mach_port_set_attributes(own(), name, MACH_PORT_LIMITS_INFO, info, count) })?;
        Ok(port)
    }
}

/// Opens the port, unless it is open. Returns its name in this process, and for launchd.
pub(super) fn open() -> Result<(mach_port_name_t, String), MachError> {
    let mut listener = listener();
    if listener.is_some() {
        return Err(MachError::Code(KERN_NAME_EXISTS));
    }
    let port = ReceivePort::new()?;
    let mut random = 0u64;
    // SAFETY: writes 8 bytes to `random`, a local of 8 bytes.
    unsafe { libc::arc4random_buf((&raw mut random).cast(), size_of::<u64>()) };
    let service = format!("sprof.{}.{random:016x}", std::process::id());
    let text = CString::new(service.clone()).unwrap_or_default();
    // SAFETY: reads an integer that libSystem sets before main and that nothing changes afterwards.
    let launchd = unsafe { bootstrap_port };
    // Where launchd refuses, programs find the port among those that they inherit.
    // SAFETY: `text` is a C string that outlives the call and is not written to; launchd gets a copy of the right.
    let _ = unsafe { bootstrap_register(launchd, text.as_ptr().cast_mut(), port.name) };
    let name = port.name;
    let kept = BTreeMap::new();
    *listener = Some(Listener { port, kept });
    WAS_OPENED.store(true, Ordering::Release);
    Ok((name, service))
}

/// Closes the port. The kernel answers those that wait.
pub(super) fn close() {
    *listener() = None;
}

/// The name of the port, while it is open.
pub(super) fn port() -> Option<mach_port_name_t> {
    listener().as_ref().map(|listener| listener.port.name)
}

/// The task that was kept for a process, if the process still has it. An exec makes another one.
pub(super) fn kept(pid: i32) -> Result<Port, MachError> {
    let listener = listener();
    let task = listener.as_ref().and_then(|listener| listener.kept.get(&pid));
    match task.filter(|task| pid_of(task) == Some(pid)) {
        Some(task) => task.duplicate(),
        None => Err(process::identity(pid).map_or(MachError::Gone, |_| MachError::Code(KERN_FAILURE))),
    }
}

fn pid_of(task: &Port) -> Option<i32> {
    let mut pid = 0;
    // SAFETY: writes an int to `pid`, a local that outlives the call.
    let code = unsafe { pid_for_task(task.name(), &raw mut pid) };
    (code == KERN_SUCCESS).then_some(pid)
}

/// The rights in a letter. When the second one is given back, the kernel answers in its place.
#[derive(Debug)]
pub struct MessageRights {
    task: Option<Port>,
    _answer: Option<Port>,
}

impl MessageRights {
    /// See [`Mach::task_pid`](crate::kernel::Mach::task_pid).
    pub(super) fn pid(&self) -> Option<i32> {
        pid_of(self.task.as_ref()?)
    }

    /// See [`Mach::keep_task`](crate::kernel::Mach::keep_task).
    pub(super) fn keep_task(&self, pid: i32) -> Result<(), MachError> {
        let task = self.task.as_ref().ok_or(MachError::Gone)?;
        let mut name = MACH_PORT_NULL;
        // SAFETY: writes a port name to `name`, a local that outlives the call. The caller has seen that the port is a
        // task, so the kernel answers, and no program.
        check(unsafe { task_get_special_port(task.name(), TASK_READ_PORT, &raw mut name) })?;
        let read = Port::own(name);
        if let Some(listener) = &mut *listener() {
            // A build starts thousands of programs.
            listener.kept.retain(|pid, task| pid_of(task) == Some(*pid));
            listener.kept.insert(pid, read);
        }
        Ok(())
    }
}

/// What is received: a hello with its trailer. A longer message is refused by the kernel.
#[repr(C)]
struct HelloMessage {
    header: mach_msg_header_t,
    body: mach_msg_body_t,
    task: mach_msg_port_descriptor_t,
    hello: [u8; wire::BYTES],
    trailer: mach_msg_audit_trailer_t,
}

/// The kernel writes the trailer behind what was sent, which has this length if it is a hello.
const SENT: usize = std::mem::offset_of!(HelloMessage, trailer);
const _: () = assert!(SENT == 64 && size_of::<HelloMessage>() == SENT + 52);

/// All letters that are there.
pub(super) fn receive() -> Vec<PortMessage<MessageRights>> {
    let mut letters = Vec::new();
    let listener = listener();
    let Some(listener) = &*listener else { return letters };
    for _ in 0..MOST_MESSAGES {
        // SAFETY: `HelloMessage` and the structures in it have integers and bytes alone (mach/message.h): all zeros is
        // a value.
        let mut message: HelloMessage = unsafe { std::mem::zeroed() };
        let options = MACH_RCV_MSG | MACH_RCV_TIMEOUT | WITH_AUDIT_TRAILER;
        let size = size_of::<HelloMessage>() as u32;
        // SAFETY: the kernel writes at most `size` bytes, the size of `message`, which outlives the call.
        let code = unsafe {
            mach_msg(
                &raw mut message.header,
                options,
                0,
                size,
                listener.port.name,
                0,
                MACH_PORT_NULL,
            )
        };
        match code {
            MACH_MSG_SUCCESS => letters.push(letter(message)),
            MACH_RCV_TIMED_OUT => break,
            // One that is too long: the kernel has destroyed it, with its rights.
            _ => {}
        }
    }
    letters
}

fn letter(mut message: HelloMessage) -> PortMessage<MessageRights> {
    let is_hello = message.header.msgh_size as usize == SENT
        && message.header.msgh_bits & MACH_MSGH_BITS_COMPLEX != 0
        && message.body.msgh_descriptor_count == 1
        && u32::from(message.task.type_) == MACH_MSG_PORT_DESCRIPTOR
        && u32::from(message.task.disposition) == MACH_MSG_TYPE_PORT_SEND;
    if !is_hello {
        // SAFETY: a message as the kernel has written it, whose rights are not used after this. No trailer is read.
        unsafe { mach_msg_destroy(&raw mut message.header) };
        return PortMessage {
            sender: Sender { pid: 0, user: u32::MAX },
            bytes: Vec::new(),
            rights: MessageRights {
                task: None,
                _answer: None,
            },
        };
    }
    // `audit_token_t`: the second word is the effective user, the sixth the process (bsm/audit.h,
    // audit_token_to_au32(3)).
    let [_, user, _, _, _, pid, _, _] = message.trailer.msgh_audit.val;
    let right = |name| (name != MACH_PORT_NULL).then(|| Port::own(name));
    PortMessage {
        sender: Sender {
            pid: i32::try_from(pid).unwrap_or(0),
            user,
        },
        bytes: message.hello.to_vec(),
        rights: MessageRights {
            task: right(message.task.name),
            _answer: right(message.header.msgh_remote_port),
        },
    }
}
