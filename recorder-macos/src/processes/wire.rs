//! What the recorder and its library in programs (`mac-preload/`, which includes this file) must agree on. Needs `core`
//! alone.

/// dyld's variable. It names libraries that are loaded into a program before all others.
pub const INSERT: &str = "DYLD_INSERT_LIBRARIES";
/// The path of the library once more: dyld removes its own variables from the environment of programs of macOS.
pub const LIBRARY: &str = "SPROF_PRELOAD";
/// The name under which launchd knows the recorder's port.
pub const NAME: &str = "SPROF_PORT";

/// Where a task has the recorder's port among its registered ports, which forks, execs and spawned programs inherit
/// (`ipc_task_init` in osfmk/kern/ipc_tt.c). macOS no longer uses `SERVICE_SLOT` (mach/mach_init.h).
pub const SLOT: usize = 2;

/// How long a program tries to send, ms.
pub const SEND_MS: u32 = 500;
/// How long it then waits until the recorder has its task, ms. 2 s together.
pub const WAIT_MS: u32 = 1500;

/// Length of a hello.
pub const BYTES: usize = 24;

/// `sprof`, and the version of this format.
const MAGIC: [u8; 8] = *b"sprof\0\0\x01";

/// A program's first message. The right to its task and a right for the answer are beside these bytes. The answer says
/// nothing: the program goes on when it comes, and when the recorder drops the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The process.
    pub pid: i32,
    /// When it was sent, on the clock of `mach_absolute_time`, ns.
    pub time_ns: u64,
}

impl Hello {
    /// `MAGIC`, pid, 4 zeros, time; little-endian.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.pid.to_le_bytes());
        bytes[16..].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes
    }

    /// The hello in these bytes. `None` if they are not a hello, or a hello of another version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Hello> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (pid, rest) = rest.split_first_chunk()?;
        let (zeros, rest) = rest.split_first_chunk()?;
        if *magic != MAGIC || *zeros != [0; 4] {
            return None;
        }
        Some(Hello {
            pid: i32::from_le_bytes(*pid),
            time_ns: u64::from_le_bytes(rest.try_into().ok()?),
        })
    }
}
