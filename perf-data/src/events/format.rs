//! What a tracepoint writes, as its `format` file in tracefs describes it; and such bytes to values.
//!
//! See Documentation/trace/events.rst, "Event formats". A pure function: the same for a ring and for a file.
//!
//! Of a text in the program's memory (`filename` of openat(2)) the event of a system call has the address alone. The
//! text is shown where the sample itself holds it: on the stack that the kernel copied at that moment. Rust's standard
//! library puts paths below 384 bytes on the stack. The program's memory is not read later: after 4 ms it held another
//! text for 78, 61, 50 and 28 % of the paths that python, git, find and ls had opened and that could still be read.
//! Since Linux 6.19 the event itself holds the text (`__filename_val`).

use std::borrow::Cow;
use std::fmt::Write as _;

use recording::event::EventValue;
use recording::stack::StackCopy;

use super::arguments::ArgumentMeaning;
use crate::decode::RegisterSet;

/// FIELD_STRING_IP of kernel/trace/trace_probe.h.
const PROBE_ADDRESS: &str = "__probe_ip";
/// The number of a system call, which its event's name says. It comes last.
const CALL_NUMBER: &str = "__syscall_nr";
/// A probe of ours at the first instruction of a kernel function: where that returns to.
pub const RETURN_ADDRESS: &str = "__return_address";

/// Arguments of system calls that point to bytes with a length and not to a text: write(2), mq_timedsend(2).
const NO_TEXTS: [&str; 2] = ["buf", "u_msg_ptr"];

/// Values of one event, at most.
const MAX_FIELDS: usize = 32;
/// Bytes of a text that are kept.
const MAX_TEXT_BYTES: usize = 256;
/// Numbers of an array that are kept.
const MAX_NUMBERS: usize = 16;

/// The values of one event, and where they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFormat {
    fields: Vec<FormatField>,
    return_address: Option<FormatField>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FormatField {
    name: String,
    offset: usize,
    size: usize,
    kind: FieldKind,
    /// Numbers that have names.
    meaning: Option<ArgumentMeaning>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldKind {
    Number(NumberField),
    /// `char name[16]`.
    Text,
    /// Numbers of this many bytes each.
    Numbers(usize, NumberField),
    /// `__data_loc char[]`: where a text of any length stands, `len << 16 | offset`.
    FarText,
    /// `__rel_loc char[]`: the same, from the end of this field.
    NearText,
    FarBytes,
    NearBytes,
    /// `const char *`: the address of a text.
    TextAt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberField {
    Unsigned,
    Signed,
    Address,
    /// The lower half of 8 bytes, signed.
    Int,
}

impl EventFormat {
    /// Reads a `format` file. Lines that are not understood are left out.
    pub fn parse(text: &str) -> EventFormat {
        let fields = text.lines().filter_map(field);
        // The sample itself has the common fields, and where a probe was hit.
        let own = fields.filter(|field| !field.name.starts_with("common_") && field.name != PROBE_ADDRESS);
        let (of_stack, mut values): (Vec<FormatField>, Vec<FormatField>) =
            own.take(MAX_FIELDS).partition(|field| field.name == RETURN_ADDRESS);
        values.sort_by_key(|field| field.name == CALL_NUMBER);
        let event = text.lines().find_map(|line| line.strip_prefix("name: "));
        for field in &mut values {
            field.meaning = ArgumentMeaning::find(event.unwrap_or_default().trim(), &field.name, RegisterSet::NATIVE);
        }
        EventFormat {
            fields: values,
            return_address: of_stack.into_iter().next(),
        }
    }

    /// Where the function returns to that has begun, if the event wrote it.
    pub(crate) fn return_address(&self, raw: &[u8]) -> Option<u64> {
        match self.return_address.as_ref()?.value(raw, StackCopy::default())? {
            EventValue::Unsigned(address) | EventValue::Address(address) => Some(address),
            _ => None,
        }
    }

    /// The names of the values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_str())
    }

    /// Takes apart what an event wrote, with the stack of that moment. There is a value for each name; where the bytes
    /// end too early it is an empty text.
    pub(crate) fn values<'a>(&self, raw: &'a [u8], stack: StackCopy<'a>) -> Vec<EventValue<'a>> {
        self.fields
            .iter()
            .map(|field| {
                field
                    .named_value(raw, stack)
                    .unwrap_or(EventValue::Text(Cow::Borrowed("")))
            })
            .collect()
    }
}

/// `field:unsigned long args[6]; offset:16; size:48; signed:0;`, with tabs between.
fn field(line: &str) -> Option<FormatField> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            Some(("signed", value)) => signed = value == "1",
            _ => {}
        }
    }
    let (kind, name) = declared.rsplit_once([' ', '*'])?;
    let is_pointer = declared[..declared.len() - name.len()].contains('*');
    let (name, is_array) = match name.split_once('[') {
        Some((name, _)) => (name, true),
        None => (name, kind.contains('[')),
    };
    let is_text = kind
        .split([' ', '['])
        .any(|word| matches!(word, "char" | "u8" | "__u8"))
        && kind.contains("char");
    let (offset, size): (usize, usize) = (offset?, size?);
    let number = match (is_pointer, signed) {
        (true, _) => NumberField::Address,
        // An argument of a system call: it has the type that the program gave it, in a whole register.
        (false, false) if kind == "int" && size == 8 => NumberField::Int,
        (false, true) => NumberField::Signed,
        (false, false) => NumberField::Unsigned,
    };
    let kind = if kind.starts_with("__data_loc") {
        if is_text {
            FieldKind::FarText
        } else {
            FieldKind::FarBytes
        }
    } else if kind.starts_with("__rel_loc") {
        if is_text {
            FieldKind::NearText
        } else {
            FieldKind::NearBytes
        }
    } else if is_array && is_text {
        FieldKind::Text
    } else if is_array {
        FieldKind::Numbers(element_bytes(kind, is_pointer, size), number)
    } else if kind.split_whitespace().eq(["const", "char", "*"]) && size == 8 && !NO_TEXTS.contains(&name) {
        FieldKind::TextAt
    } else {
        FieldKind::Number(number)
    };
    Some(FormatField {
        name: name.to_owned(),
        offset,
        size,
        kind,
        meaning: None,
    })
}

/// Size of an array's element, by its type's name: the file has the whole size only.
fn element_bytes(kind: &str, is_pointer: bool, size: usize) -> usize {
    let has = |word: &str| kind.split_whitespace().any(|part| part.trim_start_matches('_') == word);
    let bytes = if is_pointer || has("long") || has("u64") || has("s64") || has("unsigned long") {
        8
    } else if has("u8") || has("s8") || has("bool") || has("char") {
        1
    } else if has("short") || has("u16") || has("s16") {
        2
    } else {
        4
    };
    if size.is_multiple_of(bytes) { bytes } else { 1 }
}

impl FormatField {
    /// The value, or the name that its number has.
    fn named_value<'a>(&self, raw: &'a [u8], stack: StackCopy<'a>) -> Option<EventValue<'a>> {
        let value = self.value(raw, stack)?;
        let number = match value {
            EventValue::Unsigned(number) | EventValue::Address(number) => number,
            EventValue::Signed(number) => number.cast_unsigned(),
            _ => return Some(value),
        };
        let name = self.meaning.and_then(|meaning| meaning.text(number));
        Some(name.map_or(value, |name| EventValue::Text(name.into())))
    }

    fn value<'a>(&self, raw: &'a [u8], stack: StackCopy<'a>) -> Option<EventValue<'a>> {
        let bytes = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        let end = self.offset + self.size;
        Some(match self.kind {
            FieldKind::Number(number) => number.value(bytes)?,
            FieldKind::Text => EventValue::Text(text(bytes)),
            FieldKind::TextAt => {
                let address = u64::from_ne_bytes(*bytes.first_chunk()?);
                text_at(address, stack).map_or(EventValue::Address(address), EventValue::Text)
            }
            FieldKind::Numbers(each, number) => EventValue::Text(numbers(bytes, each, number).into()),
            FieldKind::FarText => EventValue::Text(text(elsewhere(raw, bytes, 0)?)),
            FieldKind::NearText => EventValue::Text(text(elsewhere(raw, bytes, end)?)),
            FieldKind::FarBytes => EventValue::Text(numbers(elsewhere(raw, bytes, 0)?, 1, NumberField::Address).into()),
            FieldKind::NearBytes => {
                EventValue::Text(numbers(elsewhere(raw, bytes, end)?, 1, NumberField::Address).into())
            }
        })
    }
}

fn elsewhere<'a>(raw: &'a [u8], location: &[u8], from: usize) -> Option<&'a [u8]> {
    let location = u32::from_ne_bytes(*location.first_chunk()?);
    let start = from.checked_add((location & 0xffff) as usize)?;
    raw.get(start..start.checked_add((location >> 16) as usize)?)
}

/// The text at an address; `None` if its end is not on the copied stack.
fn text_at(address: u64, stack: StackCopy<'_>) -> Option<Cow<'_, str>> {
    let from = usize::try_from(address.checked_sub(stack.start)?).ok()?;
    let bytes = stack.bytes.get(from..)?;
    bytes.contains(&0).then(|| text(bytes))
}

/// Up to the first NUL.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    match String::from_utf8_lossy(&bytes[..end.min(MAX_TEXT_BYTES)]) {
        text if end > MAX_TEXT_BYTES => Cow::Owned(text.into_owned() + "..."),
        text => text,
    }
}

fn numbers(bytes: &[u8], each: usize, number: NumberField) -> String {
    let mut out = String::new();
    for (at, element) in bytes.chunks_exact(each.max(1)).enumerate() {
        if at == MAX_NUMBERS {
            out.push_str(" ...");
            break;
        }
        if at > 0 {
            out.push(' ');
        }
        // Writing to a string does not fail.
        let _ = match number.value(element) {
            Some(EventValue::Signed(value)) => write!(out, "{value}"),
            Some(EventValue::Unsigned(value)) => write!(out, "{value}"),
            Some(EventValue::Address(value)) => write!(out, "{value:#x}"),
            _ => Ok(()),
        };
    }
    out
}

impl NumberField {
    fn value(self, bytes: &[u8]) -> Option<EventValue<'static>> {
        let (unsigned, signed) = match *bytes {
            [a] => (u64::from(a), i64::from(a as i8)),
            [a, b] => (u16::from_ne_bytes([a, b]).into(), i16::from_ne_bytes([a, b]).into()),
            [a, b, c, d] => (
                u32::from_ne_bytes([a, b, c, d]).into(),
                i32::from_ne_bytes([a, b, c, d]).into(),
            ),
            [a, b, c, d, e, f, g, h] => {
                let word = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                (word, word as i64)
            }
            // A structure, passed by value.
            _ => return Some(EventValue::Text(numbers(bytes, 1, NumberField::Address).into())),
        };
        Some(match self {
            NumberField::Unsigned => EventValue::Unsigned(unsigned),
            NumberField::Signed => EventValue::Signed(signed),
            NumberField::Address => EventValue::Address(unsigned),
            NumberField::Int => EventValue::Signed(i64::from(unsigned as i32)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<'a>(format: &EventFormat, raw: &'a [u8]) -> Vec<EventValue<'a>> {
        format.values(raw, StackCopy::default())
    }

    /// sched_switch of Linux 6.18, shortened.
    const SWITCH: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\n\
        print fmt: \"prev_comm=%s\", REC->prev_comm\n";

    #[test]
    fn a_context_switch_is_read_as_the_kernel_wrote_it() {
        let format = EventFormat::parse(SWITCH);
        assert_eq!(
            format.names().collect::<Vec<_>>(),
            ["prev_comm", "prev_pid", "prev_state"]
        );
        let mut raw = vec![0; 40];
        raw[8..13].copy_from_slice(b"bash\0");
        raw[24..28].copy_from_slice(&(-7i32).to_ne_bytes());
        raw[32..40].copy_from_slice(&256i64.to_ne_bytes());
        assert_eq!(
            values(&format, &raw),
            [
                EventValue::Text("bash".into()),
                EventValue::Signed(-7),
                EventValue::Signed(256)
            ]
        );
        assert_eq!(values(&format, &raw[..30])[2], EventValue::Text("".into()), "cut off");
    }

    #[test]
    fn pointers_arrays_and_texts_of_any_length() {
        let format = EventFormat::parse(
            "\tfield:const char * filename;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield:unsigned long args[2];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n\
             \tfield:__rel_loc char[] near;\toffset:28;\tsize:4;\tsigned:0;\n\
             \tfield:u8 mac[3];\toffset:32;\tsize:3;\tsigned:0;\n",
        );
        let mut raw = Vec::new();
        raw.extend(0x7fffu64.to_ne_bytes());
        raw.extend(1u64.to_ne_bytes());
        raw.extend(2u64.to_ne_bytes());
        raw.extend((3u32 << 16 | 36).to_ne_bytes());
        raw.extend((3u32 << 16 | (36 - 32)).to_ne_bytes());
        raw.extend([1, 2, 255, 0]);
        raw.extend(b"hi\0");
        let texts: Vec<EventValue<'_>> = ["1 2", "hi", "hi", "1 2 255"]
            .map(|text| EventValue::Text(text.into()))
            .into();
        assert_eq!(values(&format, &raw)[0], EventValue::Address(0x7fff));
        assert_eq!(values(&format, &raw)[1..], texts);
        // A location beyond the end.
        raw[26] = 0xff;
        assert_eq!(values(&format, &raw)[2], EventValue::Text("".into()));
    }

    #[test]
    fn a_text_of_the_program_is_told_where_it_is_on_the_copied_stack_and_whole() {
        let format = EventFormat::parse(
            "\tfield:const char * filename;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield:const char * buf;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield:char * name;\toffset:0;\tsize:8;\tsigned:0;\n",
        );
        let stack = StackCopy {
            start: 0x7000,
            bytes: b"....etc/\xff\0passwd",
        };
        let filename = |address: u64| {
            let raw = address.to_ne_bytes();
            let values = format.values(&raw, stack);
            // Bytes with a length, and what the kernel will write.
            assert_eq!(
                values[1..],
                [EventValue::Address(address), EventValue::Address(address)]
            );
            match &values[0] {
                EventValue::Text(text) => Ok(text.clone().into_owned()),
                _ => Err(()),
            }
        };
        assert_eq!(filename(0x7004), Ok("etc/\u{fffd}".to_owned()));
        assert_eq!(filename(0x7009), Ok(String::new()));
        // Without an end, behind it, before it, elsewhere.
        for address in [0x700a, 0x7010, 0x7011, 0x6fff, 0, u64::MAX] {
            assert_eq!(filename(address), Err(()), "{address:#x}");
        }
    }

    #[test]
    fn a_return_address_is_a_part_of_the_stack_and_no_value() {
        let format = EventFormat::parse(
            "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n\
             \tfield:u64 __return_address;\toffset:16;\tsize:8;\tsigned:0;\n",
        );
        let raw: Vec<u8> = [0, 1, 0xffff_8000_0801_0000u64]
            .into_iter()
            .flat_map(u64::to_ne_bytes)
            .collect();
        assert_eq!(format.return_address(&raw), Some(0xffff_8000_0801_0000));
        assert_eq!(format.return_address(&raw[..20]), None);
        assert_eq!(format.names().count(), 0);
        assert_eq!(EventFormat::parse(SWITCH).return_address(&raw), None);
    }

    #[test]
    fn arguments_of_system_calls_have_their_own_type() {
        let format = EventFormat::parse("\tfield:int dfd;\toffset:0;\tsize:8;\tsigned:0;\n");
        assert_eq!(
            values(&format, &(-100i32 as u32 as u64).to_ne_bytes()),
            [EventValue::Signed(-100)]
        );
    }

    /// sys_enter_openat of Linux 6.18, shortened.
    #[test]
    fn constants_of_system_calls_have_names_and_the_number_of_the_call_comes_last() {
        let format = EventFormat::parse(
            "name: sys_enter_openat\nID: 721\nformat:\n\
             \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\
             \tfield:int flags;\toffset:24;\tsize:8;\tsigned:0;\n\
             \tfield:umode_t mode;\toffset:32;\tsize:8;\tsigned:0;\n",
        );
        assert_eq!(
            format.names().collect::<Vec<_>>(),
            ["dfd", "flags", "mode", "__syscall_nr"]
        );
        let raw: Vec<u8> = [0, 257, u64::from((-100i32).cast_unsigned()), 0o2_000_101, 0o600]
            .into_iter()
            .flat_map(u64::to_ne_bytes)
            .collect();
        let texts = ["AT_FDCWD", "O_WRONLY|O_CREAT|O_CLOEXEC", "0600"];
        assert_eq!(
            values(&format, &raw)[..3],
            texts.map(|text| EventValue::Text(text.into()))
        );
        assert_eq!(values(&format, &raw)[3], EventValue::Signed(257));
    }

    #[test]
    fn long_texts_are_cut_and_say_so() {
        let format = EventFormat::parse("\tfield:__data_loc char[] name;\toffset:0;\tsize:4;\tsigned:0;\n");
        let mut raw = (1000u32 << 16 | 4).to_ne_bytes().to_vec();
        raw.extend([b'x'; 1000]);
        let EventValue::Text(text) = &values(&format, &raw)[0] else {
            panic!()
        };
        assert_eq!(text.len(), MAX_TEXT_BYTES + 3);
        assert!(text.ends_with("x..."));
    }

    /// Bytes and descriptions of any kind: never a panic, and always a value for each name.
    #[test]
    fn any_bytes_have_a_value_for_each_name() {
        let mut state = 1u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1442695);
            (state >> 33) as usize
        };
        let kinds = [
            "int x",
            "char x[16]",
            "__data_loc char[] x",
            "__rel_loc u8[] x",
            "u64 x[4]",
            "*",
            "",
            "struct y x",
        ];
        for _ in 0..20_000 {
            let line = format!(
                "\tfield:{};\toffset:{};\tsize:{};\tsigned:{};",
                kinds[next() % kinds.len()],
                next() % 40,
                next() % 20,
                next() % 2
            );
            let format = EventFormat::parse(&line);
            let raw: Vec<u8> = (0..next() % 64).map(|_| next() as u8).collect();
            assert_eq!(values(&format, &raw).len(), format.names().count(), "{line}");
        }
    }
}
