//! Engine errors as Python sees them: `planner._core.EngineError(kind, code, message, way_out)`.

use engine::error::Error;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(planner._core, EngineError, PyException, "kind, where, what, way out");

/// One engine error as the Python exception that `planner/core.py` translates.
pub fn to_py(error: &Error) -> PyErr {
    let fields = match error {
        Error::Input { field, what } => ("input", field.clone(), what.clone(), String::new()),
        Error::Infeasible { part, what, way_out } => ("infeasible", part.clone(), what.clone(), way_out.clone()),
        Error::Stuck { what } => ("stuck", "simulation".to_owned(), what.clone(), String::new()),
        Error::Disk { what } => ("disk", String::new(), what.clone(), String::new()),
    };
    EngineError::new_err(fields)
}

/// What an engine error says, and the way out.
pub fn in_words(error: Error) -> (String, String) {
    match error {
        Error::Input { field, what } => (format!("{field}: {what}"), String::new()),
        Error::Infeasible { part, what, way_out } => (format!("{part}: {what}"), way_out),
        Error::Stuck { what } | Error::Disk { what } => (what, String::new()),
    }
}

/// Run engine code; a panic becomes an error that says it is a bug, never an abort.
pub fn guard<T>(work: impl FnOnce() -> engine::error::Result<T>) -> PyResult<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|e| to_py(&e)),
        Err(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
                .unwrap_or_else(|| "panic".to_owned());
            Err(EngineError::new_err(("bug", "core".to_owned(), what, String::new())))
        }
    }
}
