//! The fake as a program. See the library.

use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    fake_server::process::run(fake_server::process::Arguments::parse()).await
}
