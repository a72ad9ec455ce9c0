//! The system call table, dispatch and argument conversion.
