//! The echo backend over stdio: reads what there is, answers it all, writes it in one go.

use std::io::{Read, Write};

use clap::Parser;
use mainstay_bench::{
    Era,
    echo::{self, Handled},
};

const BUFFER: usize = 256 * 1024;

/// A minimal MCP server over stdio, with one tool: echo.
#[derive(Parser)]
struct Args {
    /// Which revisions it speaks
    #[arg(long, value_enum, default_value_t)]
    era: Era,
}

fn main() -> std::io::Result<()> {
    let Args { era } = Args::parse();
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut chunk = vec![0; BUFFER];
    let (mut input, mut output) = (Vec::new(), Vec::new());
    loop {
        let read = stdin.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..read]);
        let mut consumed = 0;
        for end in memchr::memchr_iter(b'\n', &input) {
            if echo::answer(era, &input[consumed..end], &mut output) != Handled::Accepted {
                output.push(b'\n');
            }
            consumed = end + 1;
        }
        input.drain(..consumed);
        stdout.write_all(&output)?;
        stdout.flush()?;
        output.clear();
    }
}
