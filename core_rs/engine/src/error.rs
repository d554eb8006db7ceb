//! The one error type of the engine: libraries return it, nothing here prints or exits.

use std::fmt;

/// What went wrong, by whose fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The caller's input is wrong: a field and what is wrong with it.
    Input { field: String, what: String },
    /// The input is right and cannot be laid out: the part that binds and the way out.
    Infeasible { part: String, what: String, way_out: String },
    /// The simulation no longer moves; names where.
    Stuck { what: String },
    /// The disk failed.
    Disk { what: String },
}

impl Error {
    /// An `Input` error about `field`.
    pub fn input(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Input { field: field.into(), what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { field, what } => write!(f, "{field}: {what}"),
            Self::Infeasible { part, what, way_out } => write!(f, "{part}: {what}; {way_out}"),
            Self::Stuck { what } => write!(f, "the simulation is stuck: {what}"),
            Self::Disk { what } => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for Error {}

/// Result with the engine's error.
pub type Result<T> = std::result::Result<T, Error>;
