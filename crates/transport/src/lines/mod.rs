//! Messages as lines of a byte stream: the reader, the writer, and the split of output into messages and stray text.

pub mod line_reader;
pub mod line_session;
pub mod line_writer;
pub mod stdout_reader;
pub mod stray_output;
