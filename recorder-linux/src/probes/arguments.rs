//! Translates the arguments of a USDT probe from the notation of the ELF note to the notation of tracefs.
//!
//! ```text
//! -4@%eax              arg1=%ax:s32             a register
//! 8@-16(%rbp)          arg2=-16(%bp):u64        memory
//! -4@$3                arg3=\3:s32              a constant
//! 8@x0   4@[sp, 16]   4@5                       the same on arm64
//! ```
//!
//! The compiler writes them as assembler operands (systemtap's sys/sdt.h: `SIZE@OPERAND`, the size negative if the
//! value is signed). Sums of two registers, symbols and floating-point registers have no counterpart in tracefs
//! (Documentation/trace/uprobetracer.rst).

/// Most arguments to read; sdt.h has at most 12.
const MAX_ARGUMENTS: usize = 16;

/// Arguments as tracefs takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// `arg1=%ax:s32`: named by their position, from 1.
    pub(crate) fetched: Vec<String>,
    /// Arguments that cannot be read, as the note has them.
    pub(crate) left_out: Vec<String>,
}

/// Translates all arguments of a note.
pub(crate) fn translate(text: &str) -> Arguments {
    let mut arguments = Arguments::default();
    for (at, word) in words(text).into_iter().enumerate() {
        match translate_one(&word).filter(|_| at < MAX_ARGUMENTS) {
            Some(fetch) => arguments.fetched.push(format!("arg{}={fetch}", at + 1)),
            None => arguments.left_out.push(word),
        }
    }
    arguments
}

/// Names and types of the arguments. Definitions with equal names and types can be one event.
pub(super) fn form(text: &str) -> Vec<String> {
    let part = |fetch: String| match (fetch.split_once('='), fetch.rsplit_once(':')) {
        (Some((name, _)), Some((_, kind))) => format!("{name}:{kind}"),
        _ => fetch,
    };
    translate(text).fetched.into_iter().map(part).collect()
}

/// Splits at spaces, but for those within brackets: `8@[sp, 16] 4@w0`.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut in_brackets = false;
    for c in text.chars() {
        match c {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
        match words.last_mut() {
            Some(word) if !c.is_ascii_whitespace() => word.push(c),
            _ if in_brackets => {}
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn translate_one(argument: &str) -> Option<String> {
    let (size, operand) = argument.split_once('@')?;
    let kind = match size {
        "1" => "u8",
        "-1" => "s8",
        "2" => "u16",
        "-2" => "s16",
        "4" => "u32",
        "-4" => "s32",
        "8" => "u64",
        "-8" => "s64",
        // `8f@%xmm0`; older notes without a size.
        _ => return None,
    };
    Some(format!("{}:{kind}", place(operand)?))
}

fn place(operand: &str) -> Option<String> {
    if let Some(name) = operand.strip_prefix('%') {
        return Some(format!("%{}", x86_register(name)?));
    }
    if let Some(constant) = operand.strip_prefix('$') {
        return Some(format!("\\{}", number(constant)?));
    }
    if let Some(inner) = operand.strip_prefix('[') {
        let inner = inner.strip_suffix(']')?;
        let (base, offset) = inner.split_once(',').unwrap_or((inner, "0"));
        let offset = number(offset.strip_prefix('#').unwrap_or(offset))?;
        // An address is in a whole register.
        let base = arm64_register(base).filter(|_| !base.starts_with('w'))?;
        return Some(format!("{offset:+}(%{base})"));
    }
    if let Some(inner) = operand.strip_suffix(')') {
        let (offset, base) = inner.split_once('(')?;
        let base = base.strip_prefix('%')?;
        let offset = match offset {
            "" => 0,
            offset => number(offset)?,
        };
        let register = x86_register(base).filter(|_| is_x86_address(base))?;
        return Some(format!("{offset:+}(%{register})"));
    }
    match arm64_register(operand) {
        Some(register) => Some(format!("%{register}")),
        None => Some(format!("\\{}", number(operand)?)),
    }
}

fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let magnitude = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    };
    magnitude
        .filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()))
        .and_then(|magnitude| {
            if negative {
                magnitude.checked_neg()
            } else {
                Some(magnitude)
            }
        })
}

/// The kernel's name of the whole register that this one is the lower part of: regoffset_table in
/// arch/x86/kernel/ptrace.c. `None` for upper bytes (`ah`).
fn x86_register(name: &str) -> Option<String> {
    if let Some(number) = name
        .strip_prefix('r')
        .map(|rest| rest.trim_end_matches(['d', 'w', 'b']))
        && let Ok(number @ 8..=15) = number.parse::<u8>()
        && name.len() <= format!("r{number}").len() + 1
    {
        return Some(format!("r{number}"));
    }
    let whole = match name {
        "rax" | "eax" | "ax" | "al" => "ax",
        "rbx" | "ebx" | "bx" | "bl" => "bx",
        "rcx" | "ecx" | "cx" | "cl" => "cx",
        "rdx" | "edx" | "dx" | "dl" => "dx",
        "rsi" | "esi" | "si" | "sil" => "si",
        "rdi" | "edi" | "di" | "dil" => "di",
        "rbp" | "ebp" | "bp" | "bpl" => "bp",
        "rsp" | "esp" | "sp" | "spl" => "sp",
        _ => return None,
    };
    Some(whole.to_owned())
}

/// True for a register of 64 bits.
fn is_x86_address(name: &str) -> bool {
    name.starts_with('r') && !name.ends_with(['d', 'w', 'b'])
}

/// The kernel's name: regoffset_table in arch/arm64/kernel/ptrace.c.
fn arm64_register(name: &str) -> Option<String> {
    if name == "sp" {
        return Some(name.to_owned());
    }
    let digits = name.strip_prefix(['x', 'w'])?;
    let number: u8 = digits.parse().ok()?;
    (number <= 30 && digits == number.to_string()).then(|| match number {
        30 => "lr".to_owned(),
        number => format!("x{number}"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fetched(text: &str) -> String {
        let arguments = translate(text);
        assert_eq!(arguments.left_out, Vec::<String>::new());
        arguments.fetched.join(" ")
    }

    #[test]
    fn operands_of_x86_64() {
        assert_eq!(
            fetched("-4@%eax 8@-16(%rbp) -4@$3 1@%r10b 8@(%rax)"),
            r"arg1=%ax:s32 arg2=-16(%bp):u64 arg3=\3:s32 arg4=%r10:u8 arg5=+0(%ax):u64"
        );
        assert_eq!(
            fetched("-8@$-1 2@%si 4@%r8d 8@0x10(%r12) -1@%dil"),
            r"arg1=\-1:s64 arg2=%si:u16 arg3=%r8:u32 arg4=+16(%r12):u64 arg5=%di:s8"
        );
    }

    #[test]
    fn operands_of_arm64() {
        assert_eq!(
            fetched("-4@w0 8@x19 4@[sp, 16] -8@[x29, -24] 8@[x1] 4@5 8@x30"),
            r"arg1=%x0:s32 arg2=%x19:u64 arg3=+16(%sp):u32 arg4=-24(%x29):s64 arg5=+0(%x1):u64 arg6=\5:u32 arg7=%lr:u64"
        );
    }

    #[test]
    fn what_tracefs_can_not_say_is_left_out_and_the_others_keep_their_numbers() {
        let arguments =
            translate("8f@%xmm0 4@%esi 8@(%rax,%rbx,8) 4@counter(%rip) 1@%ah 8@8(%eax) %rax 4@ 3@%eax @ 8@%r16");
        assert_eq!(arguments.fetched, ["arg2=%si:u32"]);
        assert_eq!(arguments.left_out.len(), 10);
        assert_eq!(arguments.left_out[0], "8f@%xmm0");
        assert_eq!(translate(""), Arguments::default());
    }

    #[test]
    fn the_form_is_what_the_places_of_a_mark_have_in_common() {
        assert_eq!(form("-4@%eax 8@-16(%rbp)"), ["arg1:s32", "arg2:u64"]);
        assert_eq!(form("-4@$3 8@%rdi"), form("-4@%eax 8@-16(%rbp)"));
        assert_ne!(form("4@$3 8@%rdi"), form("-4@$3 8@%rdi"));
        assert_ne!(form("8f@%xmm0 8@%rdi"), form("8@%rax 8@%rdi"));
    }

    proptest! {
        // The same cases in each run.
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_text_is_translated_or_left_out(text in "[-$%@()\\[\\],#x0-9a-z ]{0,60}|.{0,40}") {
            let arguments = translate(&text);
            prop_assert!(arguments.fetched.len() <= MAX_ARGUMENTS);
            for fetch in &arguments.fetched {
                // What reaches the kernel is one word of a known alphabet.
                let plain = |c: char| c.is_ascii_alphanumeric() || "=%:\\+-()".contains(c);
                prop_assert!(fetch.chars().all(plain), "{}", fetch);
            }
        }
    }
}
