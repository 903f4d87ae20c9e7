//! A runtime whose blocking work is held back.

use std::sync::mpsc::{Sender, channel};

use tokio::runtime::{Builder, Runtime};

/// A runtime whose one thread that may block is taken until the sender is dropped, so that work taken off
/// the runtime has not ended when a test looks.
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
