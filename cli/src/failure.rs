//! Errors of a command: one line for the user, and the exit code.

/// Hull itself failed (as in container engines).
pub const EXIT_FAILURE: u8 = 125;
/// The program does not exist.
pub const EXIT_NOT_FOUND: u8 = 127;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The request is invalid or impossible.
    #[error("{what}: {why}; {remedy}")]
    Request {
        /// The option, file or device.
        what: String,
        /// The problem.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// The program is not visible in the pod.
    #[error("{program}: the pod does not see this file of the host; grant its directory: --ro {directory}")]
    NotVisible {
        /// The program.
        program: String,
        /// A directory whose grant would make it visible.
        directory: String,
    },
    /// The pod's kernel failed.
    #[error("the pod's kernel failed: {report}\n{reproduction}")]
    Keel {
        /// The report: one line, then details.
        report: String,
        /// How to reproduce the failure.
        reproduction: String,
    },
    /// A command for images failed.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// The pod could not run.
    #[error(transparent)]
    Pod(#[from] monitor::Error),
}

impl Failure {
    /// A [`Failure::Request`].
    pub fn request(what: impl Into<String>, why: impl ToString, remedy: impl Into<String>) -> Self {
        Self::Request { what: what.into(), why: why.to_string(), remedy: remedy.into() }
    }

    /// Exit code of `hull`.
    pub fn code(&self) -> u8 {
        match self {
            Failure::NotVisible { .. } => EXIT_NOT_FOUND,
            Failure::Image(_) => crate::images::EXIT_IMAGES,
            Failure::Request { .. } | Failure::Keel { .. } | Failure::Pod(_) => EXIT_FAILURE,
        }
    }
}

/// Text of an I/O error without Rust's "(os error 2)".
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}

/// A result of a command.
pub type Result<T> = std::result::Result<T, Failure>;
