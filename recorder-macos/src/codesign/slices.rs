//! The slices of a Mach-O file, and where their signatures are.

use object::endian::Endianness;
use object::macho::{
    CPU_TYPE_ARM64, CPU_TYPE_X86_64, CpuType, FAT_MAGIC, FAT_MAGIC_64, FatArch32, FatArch64, LC_CODE_SIGNATURE,
    LinkeditDataCommand, MH_CIGAM, MH_CIGAM_64, MH_MAGIC, MH_MAGIC_64, MachHeader32, MachHeader64,
};
use object::pod::{bytes_of_slice, bytes_of_slice_mut};
use object::read::macho::{FatArch, MachHeader, MachOFatFile};
use recording::module::BuildId;
use recording::sink::ReadAt;

use super::file_range::{FileRange, SignatureError, be32, bytes};

/// Slices at most. Class files of Java begin as fat files do, with their version, 45 or more, in place of the count.
const MOST_SLICES: u32 = 40;
/// Bytes of load commands at most: programs have some kilobytes.
const MOST_COMMAND_BYTES: u32 = 1 << 20;

/// A processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// arm64 and arm64e.
    Arm64,
    /// x86_64.
    X86_64,
    /// Another one: its `cputype`.
    Other(u32),
}

/// A slice before its signature is read.
#[derive(Debug)]
pub(super) struct FoundSlice {
    pub(super) cpu: Cpu,
    pub(super) build_id: Option<BuildId>,
    pub(super) signature: Option<FileRange>,
}

/// Finds all slices.
pub(super) fn find(file: &dyn ReadAt) -> Result<Vec<FoundSlice>, SignatureError> {
    if file.len() < 8 {
        return Err(SignatureError::NotMachO);
    }
    let start: [u8; 8] = bytes(file, 0)?;
    match be32(&start, 0) {
        FAT_MAGIC => fat_slices::<FatArch32>(file, be32(&start, 4)),
        FAT_MAGIC_64 => fat_slices::<FatArch64>(file, be32(&start, 4)),
        _ => {
            let len = file.len();
            Ok(vec![thin_slice(file, FileRange { offset: 0, len })?])
        }
    }
}

fn fat_slices<Fat: FatArch>(file: &dyn ReadAt, count: u32) -> Result<Vec<FoundSlice>, SignatureError> {
    if count > MOST_SLICES {
        return Err(SignatureError::NotMachO);
    }
    let len = 8 + count as usize * size_of::<Fat>();
    let header = aligned(file, 0, len)?;
    let fat = MachOFatFile::<Fat>::parse(&bytes_of_slice(&header)[..len]);
    let fat = fat.map_err(|_| SignatureError::Malformed("the list of slices"))?;
    let slices = fat.arches().iter().map(|arch| {
        let (offset, len) = (arch.offset().into(), arch.size().into());
        thin_slice(file, FileRange { offset, len })
    });
    slices.collect()
}

fn thin_slice(file: &dyn ReadAt, slice: FileRange) -> Result<FoundSlice, SignatureError> {
    // Numbers have the byte order of the processor, which the magic number shows.
    match be32(&bytes::<4>(file, slice.part(0, 4)?.offset)?, 0) {
        MH_MAGIC_64 | MH_CIGAM_64 => slice_of_header::<MachHeader64<Endianness>>(file, slice),
        MH_MAGIC | MH_CIGAM => slice_of_header::<MachHeader32<Endianness>>(file, slice),
        _ => Err(SignatureError::NotMachO),
    }
}

fn slice_of_header<Header: MachHeader<Endian = Endianness>>(
    file: &dyn ReadAt,
    slice: FileRange,
) -> Result<FoundSlice, SignatureError> {
    let malformed = |_| SignatureError::Malformed("the load commands");
    let header_len = size_of::<Header>();
    let start = aligned(file, slice.part(0, header_len as u64)?.offset, header_len)?;
    let header = Header::parse(&bytes_of_slice(&start)[..header_len], 0).map_err(malformed)?;
    let endian = header.endian().map_err(malformed)?;
    let commands_len = header.sizeofcmds(endian);
    if commands_len > MOST_COMMAND_BYTES {
        return Err(SignatureError::Malformed("too many load commands"));
    }
    let len = header_len + commands_len as usize;
    let start = aligned(file, slice.part(0, len as u64)?.offset, len)?;
    let mut commands = header
        .load_commands(endian, &bytes_of_slice(&start)[..len], 0)
        .map_err(malformed)?;
    let (mut signature, mut build_id) = (None, None);
    while let Some(command) = commands.next().map_err(malformed)? {
        if command.cmd() == LC_CODE_SIGNATURE {
            let data: &LinkeditDataCommand<Endianness> = command.data().map_err(malformed)?;
            signature = Some(slice.part(data.dataoff.get(endian), data.datasize.get(endian).into())?);
        } else if let Some(command) = command.uuid().map_err(malformed)? {
            build_id = Some(BuildId::of_uuid(command.uuid));
        }
    }
    let cpu = match header.cputype(endian) {
        CPU_TYPE_ARM64 => Cpu::Arm64,
        CPU_TYPE_X86_64 => Cpu::X86_64,
        CpuType(other) => Cpu::Other(other),
    };
    Ok(FoundSlice {
        cpu,
        build_id,
        signature,
    })
}

/// Reads bytes into whole words, because object reads structures where they are aligned.
fn aligned(file: &dyn ReadAt, offset: u64, len: usize) -> Result<Vec<u64>, SignatureError> {
    let mut words = vec![0u64; len.div_ceil(8)];
    file.read_exact_at(&mut bytes_of_slice_mut(&mut words)[..len], offset)?;
    Ok(words)
}
