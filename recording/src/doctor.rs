//! What a machine permits, as plain data: each recorder finds it out, `sprof doctor` prints it.

/// Everything that was found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// The ways to record a program, the best first; the first that works is used.
    pub ways: Vec<Finding>,
    /// What else decides how much a recording shows.
    pub limits: Vec<Finding>,
}

/// One thing that was tried or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A name for machines that does not change: `perf-kernel`.
    pub id: &'static str,
    /// The thing, in a few words.
    pub title: String,
    /// Its state.
    pub state: CheckState,
    /// Why, or what it means; may be empty.
    pub reason: String,
    /// Commands and options that fix it, each by itself. Empty if nothing is wrong, or nothing helps.
    pub fixes: Vec<String>,
}

/// The state of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// As good as possible.
    Works,
    /// Not there, or refused.
    Fails,
    /// Less than it could be.
    Limited,
}

impl Finding {
    /// A thing that works.
    pub fn works(id: &'static str, title: impl Into<String>, reason: impl Into<String>) -> Finding {
        Finding {
            id,
            title: title.into(),
            state: CheckState::Works,
            reason: reason.into(),
            fixes: Vec::new(),
        }
    }

    /// Changes the state of a finding.
    pub fn in_state(self, state: CheckState) -> Finding {
        Finding { state, ..self }
    }

    /// Changes the state and the reason of a finding.
    pub fn because(self, state: CheckState, reason: impl ToString) -> Finding {
        let reason = reason.to_string();
        Finding { state, reason, ..self }
    }

    /// Adds what fixes the finding.
    pub fn fixed_by<F: Into<String>>(self, fixes: impl IntoIterator<Item = F>) -> Finding {
        let fixes = fixes.into_iter().map(Into::into).collect();
        Finding { fixes, ..self }
    }
}
