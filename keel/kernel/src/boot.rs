//! From hal's boot hook to the first program.
