//! What the code signature of a Mach-O file permits, before the program is started.
//!
//! Gets: a file. Gives: the facts of the signature of each of its slices. Nothing is verified, and only what signatures
//! say is known: macOS also decides by its own lists. Where macOS refuses although the signature permits, the refusal
//! counts.
//!
//! - `slices`: the slices of a fat file, and where their signatures are.
//! - this file: the blobs of a signature (XNU, osfmk/kern/cs_blobs.h). All numbers in them are big-endian.
//! - `file_range`: reading ranges of a file.
//! - `entitlements`: the keys that a signature grants, in DER or as a property list.
//!
//! Files from outside: each size is bounded, and only a few kilobytes are read of any file.

mod entitlements;
mod file_range;
mod slices;

use std::collections::BTreeSet;

use object::macho::{
    self, CS_ADHOC, CS_LINKER_SIGNED, CS_REQUIRE_LV, CS_RESTRICT, CS_RUNTIME, CSMAGIC_CODEDIRECTORY,
    CSMAGIC_EMBEDDED_DER_ENTITLEMENTS, CSMAGIC_EMBEDDED_ENTITLEMENTS, CSMAGIC_EMBEDDED_SIGNATURE, CSSLOT_CODEDIRECTORY,
    CSSLOT_DER_ENTITLEMENTS, CSSLOT_ENTITLEMENTS,
};
use recording::module::BuildId;
use recording::sink::ReadAt;

use file_range::{FileRange, be32, bytes};

pub use file_range::SignatureError;
pub use slices::Cpu;

/// Blobs of a signature at most; there are a dozen kinds.
const MOST_BLOBS: u32 = 64;
/// Bytes of a list of entitlements at most; the largest that were seen have some hundred.
const MOST_ENTITLEMENT_BYTES: u32 = 1 << 20;
/// Bytes of an identifier at most.
const MOST_IDENTIFIER_BYTES: u64 = 256;

/// One architecture of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its processor.
    pub cpu: Cpu,
    /// Which build it is.
    pub build_id: Option<BuildId>,
    /// `None`: it has no signature. Apple's processors do not run such programs.
    pub signature: Option<Signature>,
}

/// The facts of one signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// The name that the signer gave.
    pub identifier: String,
    /// Signed without a certificate.
    pub is_ad_hoc: bool,
    /// Signed by the linker, without being asked.
    pub is_linker_signed: bool,
    /// Signed for the hardened runtime.
    pub is_hardened: bool,
    /// Part of macOS: signed with a platform identifier.
    pub is_platform: bool,
    /// dyld is to ignore its variables (`CS_RESTRICT`).
    pub is_restricted: bool,
    /// Only libraries of its own signer or of Apple are asked for, even without the hardened runtime.
    pub asks_for_library_validation: bool,
    /// The keys of all entitlements that are true.
    pub entitlements: BTreeSet<String>,
}

impl Signature {
    /// The process may be read by others of the same user: not hardened, or `get-task-allow`. Of macOS's own programs
    /// none.
    pub fn permits_reading(&self) -> bool {
        let is_open = !self.is_hardened || self.has("com.apple.security.get-task-allow");
        is_open && !self.is_platform
    }

    /// A program that may ask for the tasks of others.
    pub fn permits_debugging(&self) -> bool {
        self.has("com.apple.security.cs.debugger")
    }

    /// Libraries of any signer may be loaded.
    pub fn permits_any_library(&self) -> bool {
        let is_validated = self.asks_for_library_validation || self.is_hardened || self.is_platform;
        !is_validated || self.has("com.apple.security.cs.disable-library-validation")
    }

    /// dyld takes note of `DYLD_INSERT_LIBRARIES`.
    pub fn permits_dyld_variables(&self) -> bool {
        let is_open = !self.is_hardened || self.has("com.apple.security.cs.allow-dyld-environment-variables");
        is_open && !self.is_restricted && !self.is_platform
    }

    /// A library of sprof may be inserted, and may send the right to the task: the kernel ends a process with this
    /// entitlement for that (`hardened-process` in bsd/kern/kern_exec.c).
    pub fn permits_insertion(&self) -> bool {
        let is_kept = |key: &String| key.ends_with(".hardened-process");
        self.permits_dyld_variables() && self.permits_any_library() && !self.entitlements.iter().any(is_kept)
    }

    fn has(&self, entitlement: &str) -> bool {
        self.entitlements.contains(entitlement)
    }
}

/// The builds that a file has, one for each processor. Signatures are not read.
///
/// # Errors
///
/// The file is not a Mach-O file.
pub fn builds(file: &dyn ReadAt) -> Result<Vec<BuildId>, SignatureError> {
    let found = slices::find(file)?.into_iter();
    Ok(found.filter_map(|slice| slice.build_id).collect())
}

/// Reads the signatures of all slices of a file.
///
/// # Errors
///
/// The file is not a Mach-O file, or a signature is damaged.
pub fn read(file: &dyn ReadAt) -> Result<Vec<Slice>, SignatureError> {
    let found = slices::find(file)?;
    let read = found.into_iter().map(|slice| {
        let signature = slice.signature.map(|range| signature(file, range)).transpose()?;
        Ok(Slice {
            cpu: slice.cpu,
            build_id: slice.build_id,
            signature,
        })
    });
    read.collect()
}

fn signature(file: &dyn ReadAt, range: FileRange) -> Result<Signature, SignatureError> {
    let header: [u8; 12] = bytes(file, range.part(0, 12)?.offset)?;
    if be32(&header, 0) != CSMAGIC_EMBEDDED_SIGNATURE {
        return Err(SignatureError::Malformed("it is not an embedded signature"));
    }
    let count = be32(&header, 8);
    if count > MOST_BLOBS {
        return Err(SignatureError::Malformed("it has too many blobs"));
    }
    let (mut directory, mut der, mut list) = (None, None, None);
    for index in 0..count {
        let entry: [u8; 8] = bytes(file, range.part(12 + 8 * index, 8)?.offset)?;
        let offset = be32(&entry, 4);
        match macho::CsSlot(be32(&entry, 0)) {
            CSSLOT_CODEDIRECTORY => directory = Some(offset),
            CSSLOT_DER_ENTITLEMENTS => der = Some(offset),
            CSSLOT_ENTITLEMENTS => list = Some(offset),
            _ => {}
        }
    }
    let directory = directory.ok_or(SignatureError::Malformed("it has no code directory"))?;
    let mut signature = code_directory(file, range, directory)?;
    // macOS reads DER since version 12, and the property list before.
    signature.entitlements = match (der, list) {
        (Some(offset), _) => {
            let der = blob(file, range, offset, CSMAGIC_EMBEDDED_DER_ENTITLEMENTS)?;
            entitlements::from_der(&der).ok_or(SignatureError::Malformed("entitlements are not DER"))?
        }
        (None, Some(offset)) => entitlements::from_plist(&blob(file, range, offset, CSMAGIC_EMBEDDED_ENTITLEMENTS)?),
        (None, None) => BTreeSet::new(),
    };
    Ok(signature)
}

/// Flags and names. All code directories of a signature have the same; they differ in the kind of their hashes.
fn code_directory(file: &dyn ReadAt, signature: FileRange, offset: u32) -> Result<Signature, SignatureError> {
    // CsCodeDirectoryV0, which every version begins with.
    let header: [u8; 44] = bytes(file, signature.part(offset, 44)?.offset)?;
    if be32(&header, 0) != CSMAGIC_CODEDIRECTORY {
        return Err(SignatureError::Malformed("its code directory is none"));
    }
    let directory = signature.part(offset, u64::from(be32(&header, 4)))?;
    let flags = macho::CsFlags(be32(&header, 12));
    let has = |flag: macho::CsFlags| flags.0 & flag.0 != 0;
    Ok(Signature {
        identifier: text(file, directory, be32(&header, 20))?,
        is_ad_hoc: has(CS_ADHOC),
        is_linker_signed: has(CS_LINKER_SIGNED),
        is_hardened: has(CS_RUNTIME),
        is_platform: header[38] != 0,
        is_restricted: has(CS_RESTRICT),
        asks_for_library_validation: has(CS_REQUIRE_LV),
        entitlements: BTreeSet::new(),
    })
}

/// The contents of a blob with this magic number.
fn blob(file: &dyn ReadAt, signature: FileRange, offset: u32, magic: u32) -> Result<Vec<u8>, SignatureError> {
    let header: [u8; 8] = bytes(file, signature.part(offset, 8)?.offset)?;
    let len = be32(&header, 4);
    if be32(&header, 0) != magic || !(8..=MOST_ENTITLEMENT_BYTES).contains(&len) {
        return Err(SignatureError::Malformed(
            "entitlements are of another kind, or too long",
        ));
    }
    let range = signature.part(offset, u64::from(len))?;
    let mut contents = vec![0; (len - 8) as usize];
    file.read_exact_at(&mut contents, range.offset + 8)?;
    Ok(contents)
}

/// A text that ends with a zero byte.
fn text(file: &dyn ReadAt, directory: FileRange, offset: u32) -> Result<String, SignatureError> {
    let most = directory
        .len
        .saturating_sub(u64::from(offset))
        .min(MOST_IDENTIFIER_BYTES);
    let range = directory.part(offset, most)?;
    let mut text = vec![0; most as usize];
    file.read_exact_at(&mut text, range.offset)?;
    let len = text.iter().position(|byte| *byte == 0);
    text.truncate(len.ok_or(SignatureError::Malformed("its identifier has no end"))?);
    Ok(String::from_utf8_lossy(&text).into_owned())
}
