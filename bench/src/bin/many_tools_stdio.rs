//! A server over stdio with many tools, as long as those of servers in the wild. On request its list changes again
//! and again: each time that it has been read, one tool has another description.

use std::fmt::Write as _;
use std::io::{BufRead, BufWriter, Write};

use clap::Parser;
use mainstay_bench::Era;
use mainstay_bench::many_tools::{CHANGE, tool};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A server over stdio with many tools.
#[derive(Parser)]
struct Args {
    /// Tools that it lists
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tools: usize,
    /// Makes its tools others than those of another server
    #[arg(long, value_name = "N", default_value_t)]
    seed: usize,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: &'a str,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut tools: Vec<String> = (0..args.tools)
        .map(|number| tool(args.seed, number, 0))
        .collect();
    tools.push(format!(
        r#"{{"name":"{CHANGE}","description":"Begins or ends changes.","inputSchema":{{"type":"object"}}}}"#
    ));
    let mut output = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let (mut changes, mut lists) = (false, 0);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let message: Message<'_> = serde_json::from_str(&line)?;
        let Some(id) = message.id.map(RawValue::get) else {
            continue;
        };
        let mut answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
        match message.method {
            "initialize" => write!(
                answer,
                r#"{{"protocolVersion":"{}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"many-tools","version":"1"}}}}"#,
                Era::Legacy.version()
            )?,
            "tools/list" => {
                lists += 1;
                write!(answer, r#"{{"tools":[{}]}}"#, tools.join(","))?;
            }
            "tools/call" => {
                let params = message.params.map_or("", RawValue::get);
                changes = params.contains("\"begin\"");
                let text = r#"{"content":[{"type":"text","text":"#;
                write!(answer, r#"{text}"{lists}"}}]}}"#)?;
            }
            _ => answer.push_str("{}"),
        }
        answer.push('}');
        writeln!(output, "{answer}")?;
        if changes {
            if message.method == "tools/list" {
                let number = lists % args.tools.max(1);
                tools[number] = tool(args.seed, number, lists);
            }
            if matches!(message.method, "tools/list" | "tools/call") {
                writeln!(output, "{CHANGED}")?;
            }
        }
        output.flush()?;
    }
    Ok(())
}
