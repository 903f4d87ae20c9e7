//! The journal as a whole.
