//! A tokio runtime whose blocking work does not start.

use std::sync::mpsc::{Sender, channel};

use tokio::runtime::{Builder, Runtime};

/// A runtime whose only blocking thread is occupied until the sender is dropped. A test can thus
/// check the state while blocking work waits.
pub fn runtime_that_waits() -> (Runtime, Sender<()>) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .expect("a runtime");
    let (release, released) = channel();
    runtime.spawn_blocking(move || released.recv());
    (runtime, release)
}
