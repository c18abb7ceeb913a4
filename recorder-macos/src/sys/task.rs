//! Tasks: their threads and their memory.

use std::ffi::c_int;
use std::ops::Range;

use mach2::kern_return::{KERN_SUCCESS, kern_return_t};
use mach2::mach_types::thread_act_array_t;
use mach2::port::{MACH_PORT_NULL, mach_port_name_t, mach_port_t};
use mach2::task::{task_info, task_threads};
use mach2::task_info::{TASK_DYLD_INFO, TASK_DYLD_INFO_COUNT, task_dyld_info};
use mach2::vm::{mach_vm_deallocate, mach_vm_read_overwrite, mach_vm_region};
use mach2::vm_prot::VM_PROT_READ;
use mach2::vm_region::{VM_REGION_BASIC_INFO_64, vm_region_basic_info_64, vm_region_info_t};

use super::port::{Port, check, own};
use super::process;
use crate::kernel::MachError;

unsafe extern "C" {
    /// `mach/mach_traps.h`. A right to read: enough to suspend, to read registers and memory, and not to change
    /// anything.
    fn task_read_for_pid(target: mach_port_name_t, pid: c_int, task: *mut mach_port_name_t) -> kern_return_t;
}

/// A right to read the task of a process.
pub(super) fn open(pid: i32) -> Result<Port, MachError> {
    let mut name = MACH_PORT_NULL;
    // SAFETY: writes a port name to `name`, a local that outlives the call.
    let code = unsafe { task_read_for_pid(own(), pid, &raw mut name) };
    if code != KERN_SUCCESS || name == MACH_PORT_NULL {
        // The code is the same where there is no such process and where access is refused.
        return Err(match process::identity(pid) {
            Some(_) => MachError::Code(code),
            None => MachError::Gone,
        });
    }
    Ok(Port::own(name))
}

/// Where dyld lists the images of a task.
pub(super) fn image_list(task: &Port) -> Result<u64, MachError> {
    // SAFETY: `task_dyld_info` has integers alone (mach/task_info.h): all zeros is a value.
    let mut info: task_dyld_info = unsafe { std::mem::zeroed() };
    let mut count = TASK_DYLD_INFO_COUNT;
    // SAFETY: the kernel writes at most `count` words, the size of the local structure, which outlives the call.
    check(unsafe { task_info(task.name(), TASK_DYLD_INFO, (&raw mut info).cast(), &raw mut count) })?;
    match info.all_image_info_addr {
        0 => Err(MachError::Code(KERN_SUCCESS)),
        address => Ok(address),
    }
}

/// All threads of a task.
pub(super) fn threads(task: &Port) -> Result<Vec<Port>, MachError> {
    let mut list: thread_act_array_t = std::ptr::null_mut();
    let mut count = 0;
    // SAFETY: writes a pointer and a count to two locals that outlive the call.
    check(unsafe { task_threads(task.name(), &raw mut list, &raw mut count) })?;
    if list.is_null() || count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the kernel has mapped `count` names at `list` into this process, and nothing else refers to them.
    let names = unsafe { std::slice::from_raw_parts(list, count as usize) };
    // Each name comes with a reference.
    let ports = names.iter().map(|name| Port::own(*name)).collect();
    let bytes = u64::from(count) * size_of::<mach_port_t>() as u64;
    // SAFETY: `list` was mapped by task_threads for this call, has `bytes` bytes, and is not used after this.
    let _ = unsafe { mach_vm_deallocate(own(), list.addr() as u64, bytes) };
    Ok(ports)
}

/// The region of readable memory at an address, or the next one above it.
pub(super) fn region(task: &Port, address: u64) -> Option<Range<u64>> {
    let (mut start, mut size) = (address, 0);
    let mut info = vm_region_basic_info_64::default();
    let mut count = vm_region_basic_info_64::count();
    let mut object = MACH_PORT_NULL;
    let to: vm_region_info_t = (&raw mut info).cast();
    // SAFETY: the kernel writes at most `count` words, the size of `info`, and one value to each of the other locals.
    // All outlive the call.
    let code = unsafe {
        mach_vm_region(
            task.name(),
            &raw mut start,
            &raw mut size,
            VM_REGION_BASIC_INFO_64,
            to,
            &raw mut count,
            &raw mut object,
        )
    };
    if object != MACH_PORT_NULL {
        drop(Port::own(object));
    }
    let is_readable = info.protection & VM_PROT_READ != 0;
    (code == KERN_SUCCESS && is_readable).then(|| start..start.saturating_add(size))
}

/// Fills the buffer from memory, or fails.
pub(super) fn read(task: &Port, address: u64, buffer: &mut [u8]) -> Result<(), MachError> {
    let wanted = buffer.len() as u64;
    let mut read = 0;
    let to = buffer.as_mut_ptr().addr() as u64;
    // SAFETY: the kernel writes at most `wanted` bytes, which the buffer has.
    check(unsafe { mach_vm_read_overwrite(task.name(), address, wanted, to, &raw mut read) })?;
    if read == wanted {
        Ok(())
    } else {
        Err(MachError::Code(KERN_SUCCESS))
    }
}
