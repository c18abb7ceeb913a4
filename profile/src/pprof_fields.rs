//! Field numbers of a pprof profile: <https://github.com/google/pprof/blob/main/proto/profile.proto>.

/// Fields of `Profile`, the whole file.
pub(crate) mod profile {
    pub(crate) const SAMPLE_TYPE: u64 = 1;
    pub(crate) const SAMPLE: u64 = 2;
    pub(crate) const MAPPING: u64 = 3;
    pub(crate) const LOCATION: u64 = 4;
    pub(crate) const FUNCTION: u64 = 5;
    pub(crate) const STRING_TABLE: u64 = 6;
    pub(crate) const DROP_FRAMES: u64 = 7;
    pub(crate) const KEEP_FRAMES: u64 = 8;
    pub(crate) const TIME_NANOS: u64 = 9;
    pub(crate) const DURATION_NANOS: u64 = 10;
    pub(crate) const PERIOD_TYPE: u64 = 11;
    pub(crate) const PERIOD: u64 = 12;
    pub(crate) const COMMENT: u64 = 13;
    pub(crate) const DEFAULT_SAMPLE_TYPE: u64 = 14;
    pub(crate) const DOC_URL: u64 = 15;
}

/// Fields of `ValueType`. Both are texts.
pub(crate) mod value_type {
    pub(crate) const TYPE: u64 = 1;
    pub(crate) const UNIT: u64 = 2;
}

/// Fields of `Sample`.
pub(crate) mod sample {
    /// Leaf first.
    pub(crate) const LOCATION_ID: u64 = 1;
    pub(crate) const VALUE: u64 = 2;
    pub(crate) const LABEL: u64 = 3;
}

/// Fields of `Label`: a text, or a number with a unit.
pub(crate) mod label {
    pub(crate) const KEY: u64 = 1;
    pub(crate) const STR: u64 = 2;
    pub(crate) const NUM: u64 = 3;
}

/// Fields of `Mapping`.
pub(crate) mod mapping {
    pub(crate) const ID: u64 = 1;
    pub(crate) const MEMORY_START: u64 = 2;
    pub(crate) const MEMORY_LIMIT: u64 = 3;
    pub(crate) const FILE_OFFSET: u64 = 4;
    pub(crate) const FILENAME: u64 = 5;
    pub(crate) const BUILD_ID: u64 = 6;
    pub(crate) const HAS_FUNCTIONS: u64 = 7;
    pub(crate) const HAS_INLINE_FRAMES: u64 = 10;
}

/// Fields of `Location`.
pub(crate) mod location {
    pub(crate) const ID: u64 = 1;
    pub(crate) const MAPPING_ID: u64 = 2;
    pub(crate) const ADDRESS: u64 = 3;
    /// Innermost first; all but the last are inlined.
    pub(crate) const LINE: u64 = 4;
}

/// Fields of `Line`.
pub(crate) mod line {
    pub(crate) const FUNCTION_ID: u64 = 1;
    pub(crate) const LINE: u64 = 2;
}

/// Fields of `Function`. All but the id are texts.
pub(crate) mod function {
    pub(crate) const ID: u64 = 1;
    pub(crate) const NAME: u64 = 2;
    pub(crate) const SYSTEM_NAME: u64 = 3;
    pub(crate) const FILENAME: u64 = 4;
}

/// Type and unit of the period where blocks of memory were chosen by chance: the period is the mean distance of chosen
/// bytes (`tagProfile_PeriodType` in runtime/pprof/protomem.go of Go).
pub(crate) const CHOSEN_BYTES: [&str; 2] = ["space", "bytes"];
