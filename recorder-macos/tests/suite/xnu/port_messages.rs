//! Programs with the recorder's library: they announce themselves, and wait.

use recorder_macos::kernel::{KernelEvent, MachError, PortMessage, Sender};
use recorder_macos::processes::wire::{Hello, WAIT_MS};

use super::Xnu;
use super::behaviour::Planned;
use super::calls::{Kernel, Port};
use super::machine::{Machine, State, WAIT};

/// A message to the recorder's port.
#[derive(Clone, Debug)]
pub(crate) struct Mail {
    pub(crate) sender: Sender,
    pub(crate) bytes: Vec<u8>,
    /// Whose task is in it; `None` if it is no task.
    pub(crate) task: Option<usize>,
    /// The thread that waits for an answer.
    pub(crate) waits: Option<usize>,
}

/// The rights in a letter, given back when dropped.
pub(crate) struct MessageRights {
    kernel: Xnu,
    control: usize,
    answer: usize,
    task: Option<usize>,
    waits: Option<usize>,
}

impl Drop for MessageRights {
    fn drop(&mut self) {
        let mut kernel = self.kernel.lock();
        kernel.give_back(self.control);
        kernel.give_back(self.answer);
        kernel.machine.answer(self.waits);
    }
}

impl Machine {
    /// The program's libraries are loaded, which takes CPU time. The recorder's one announces it then.
    pub(super) fn load_library(&mut self, process: usize) {
        if !self.processes[process].has_library {
            return;
        }
        let task = self.processes[process].task;
        let at = self.now + 1_000_000 + self.chance.below(2_000_000);
        let announce = move |machine: &mut Machine| {
            if machine.processes[process].task == task {
                machine.announce(process);
            }
        };
        self.planned.push((at, Planned(Box::new(announce))));
    }

    /// A process gets the library, and all that it starts from then on.
    pub(crate) fn give_library(&mut self, process: usize) {
        self.processes[process].has_library = true;
        self.load_library(process);
    }

    /// A process announces itself, if it is to and anybody listens, and waits.
    pub(super) fn announce(&mut self, process: usize) {
        let of_process = &self.processes[process];
        if !of_process.has_library || !of_process.is_alive || self.mailbox.is_none() {
            return;
        }
        let (pid, task) = (of_process.pid, of_process.task);
        let Some(serial) = self.living(process).next() else {
            return;
        };
        let time_ns = self.now;
        self.leave(serial, State::WaitsUntil(time_ns + u64::from(WAIT_MS) * 1_000_000));
        self.threads[serial].function = WAIT;
        self.threads[serial].left_ns = 0;
        self.send(Mail {
            sender: Sender { pid, user: 501 },
            bytes: Hello { pid, time_ns }.to_bytes().to_vec(),
            task: Some(task),
            waits: Some(serial),
        });
    }

    /// Anybody sends to the recorder's port.
    pub(crate) fn send(&mut self, mail: Mail) {
        match &mut self.mailbox {
            Some(mailbox) => {
                mailbox.push(mail);
                self.news.push(KernelEvent::Messages);
            }
            None => self.answer(mail.waits),
        }
    }

    /// A thread that waited goes on, unless it has already.
    fn answer(&mut self, waits: Option<usize>) {
        let Some(serial) = waits else { return };
        if let State::WaitsUntil(_) = self.threads[serial].state {
            self.enqueue(serial, false);
        }
    }
}

impl Xnu {
    pub(super) fn take_letters(&self) -> Vec<PortMessage<MessageRights>> {
        let mut kernel = self.lock();
        // It can't fail.
        let _ = kernel.call(None, None);
        let mailbox = kernel.machine.mailbox.as_mut().map(std::mem::take);
        let mail = mailbox.unwrap_or_default().into_iter();
        let open = |mail: Mail| PortMessage {
            sender: mail.sender,
            bytes: mail.bytes,
            rights: MessageRights {
                kernel: self.clone(),
                control: kernel.right(Port::Control(mail.task)),
                answer: kernel.right(Port::Answer),
                task: mail.task,
                waits: mail.waits,
            },
        };
        mail.map(open).collect()
    }

    pub(super) fn pid_of(&self, rights: &MessageRights) -> Option<i32> {
        let mut kernel = self.lock();
        kernel.call(None, None).ok()?;
        let task = rights.task?;
        let mut processes = kernel.machine.processes.iter();
        let process = processes.find(|process| process.is_alive && process.task == task)?;
        Some(process.pid)
    }

    pub(super) fn keep_task(&self, pid: i32, rights: &MessageRights) -> Result<(), MachError> {
        let mut kernel = self.lock();
        kernel.call(None, None)?;
        let task = rights
            .task
            .expect("the recorder asks a task alone, which answers at once");
        if kernel.machine.dead_tasks[task] {
            return Err(MachError::Gone);
        }
        let name = kernel.right(Port::Task(task));
        if let Some(before) = kernel.kept.insert(pid, name) {
            kernel.give_back(before);
        }
        Ok(())
    }
}

impl Kernel {
    /// The task that was kept for a process, if it is the one that the process has.
    pub(super) fn kept_task(&self, process: usize) -> Result<usize, MachError> {
        let of_process = &self.machine.processes[process];
        let kept = self.kept.get(&of_process.pid).map(|name| self.port(*name));
        match kept == Some(Port::Task(of_process.task)) {
            true => Ok(of_process.task),
            false => Err(MachError::Code(5)),
        }
    }

    pub(super) fn open_port(&mut self) {
        self.machine.mailbox = Some(Vec::new());
    }

    /// What was not read is given back by the kernel.
    pub(super) fn close_port(&mut self) {
        for mail in self.machine.mailbox.take().unwrap_or_default() {
            self.machine.answer(mail.waits);
        }
        for name in std::mem::take(&mut self.kept).into_values() {
            self.give_back(name);
        }
    }
}
