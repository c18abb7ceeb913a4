//! The machine code of a module as text.

use recording::module::Module;

use super::{Engine, Symbolicator};
use crate::asm::{self, AsmError, Assembly};

impl Symbolicator {
    /// The instructions from relative address `start` on, over `size` bytes. With `to_function_end`, on to the end of
    /// the function that holds `start`, if that is further.
    ///
    /// # Errors
    ///
    /// The look-up of the module fails, no file has its machine code, or the processor is not supported.
    pub fn assembly(
        &self,
        module: &Module,
        start: u64,
        size: u64,
        to_function_end: bool,
    ) -> Result<Assembly, AsmError> {
        let entry = self.entry(module);
        let name = entry.module.name();
        self.with_engine(&entry, |engine| {
            Ok(match engine {
                Engine::Object(file) => asm::assemble(file, &name, start, size, to_function_end),
                Engine::Jit(jit) => asm::assemble_jit(jit, start, size, to_function_end),
                Engine::Kernel(_) => Err(AsmError::NotOnDisk("the kernel".to_owned())),
                Engine::Foreign(_) | Engine::Recorded(_) => Err(AsmError::NotOnDisk(name)),
            })
        })?
    }
}
