//! Pins the arrows of the house: which package and which room may know which (ARCHITECTURE.md, "Code
//! map"). Both are read from the sources; what is not in the tables below fails, and so does a line
//! of a table that nothing needs any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The rooms of `src` and what each knows. A room knows rooms further down only, so that arrows point
/// one way. A file belongs to the longest name that fits it: `cli` is what is left of `cli/`. Within
/// its own house a room goes up freely (`cli/serve` to `cli`). Every room may know the core.
const ROOMS: &str = "
    main          -> cli demo guardian huge_pages

    // The commands know the REST API, and how a daemon is found.
    cli           -> cli/archive cli/connect cli/error api
    // Without a daemon these change the configuration's file.
    cli/stats     -> cli/connect cli/records api utc
    cli/records   -> cli/archive cli/connect api journal utc
    cli/remove    -> cli/add cli/connect reload
    cli/switch    -> cli/add cli/connect api reload
    cli/add       -> cli/connect reload
    cli/logs      -> cli/connect api logs    // without a daemon: reads what it left
    cli/token     -> cli/connect api state surroundings tokens  // without a daemon: its directory
    cli/archive   -> api journal state surroundings  // without a daemon: reads what is recorded
    cli/connect   -> cli/instance cli/serve daemon api lineage setting state surroundings  // in-process start
    cli/mcp       -> cli/clients cli/instance cli/serve daemon lineage setting state
    cli/instance  -> journal lineage state surroundings  // what is kept without a daemon
    cli/validate  -> cli/serve surroundings  // needs no daemon: reads the file itself
    cli/resolve   -> transport               // needs no daemon: asks what a stdio server would
    cli/serve     -> cli/clients cli/status daemon demo journal lineage reload setting state surroundings tokens
    cli/clients   -> surroundings            // servers given on the command line
    cli/status    -> registry supervisor              // what `serve` tells of its servers
    cli/error     -> api journal lineage state surroundings tokens  // why any command failed

    daemon        -> alerts descriptors front front/mcp front/rest calls reload registry setting surroundings switches tokens traces
    // The demo shows a server's pid in its tour.
    demo          -> supervisor utc

    front         -> front/mcp front/rest descriptors logs tokens
    front/rest    -> front/mcp front/plain calls events journal lineage metrics processes reload registry supervisor logs api tokens utc
    front/mcp     -> front/plain blocking calls events journal lineage registry supervisor state switches transport api utc
    front/plain   -> calls journal registry supervisor transport api utc
    calls         -> journal metrics supervisor traces transport
    reload        -> alerts blocking registry state surroundings
    alerts        -> events transport utc
    registry      -> blocking clock events setting state supervisor surroundings transport logs
    supervisor    -> blocking events lineage metrics state transport logs
    traces        -> transport
    transport     -> blocking descriptors event_stream huge_pages lineage logs processes scratch
    logs          -> api scratch state utc

    tokens        -> api state utc
    api           -> event_stream utc
    allocator     ->
    blocking      ->
    event_stream  ->
    guardian      -> huge_pages processes
    events        ->
    setting       -> clock journal lineage surroundings
    journal       -> state utc
    clock         ->
    descriptors   ->
    huge_pages    ->
    lineage       ->
    metrics       ->
    processes     ->
    scratch       ->
    switches      -> state
    state         ->
    surroundings  -> files
    files         ->
    utc           ->
    lib           ->
";

/// Our packages and which of them each needs, tests included.
const PACKAGES: &str = "
    mainstay            -> mainstay-core fake-server
    mainstay-core       ->
    fake-server         ->
    conformance-server  ->
    mainstay-bench      -> mainstay mainstay-core fake-server  // what it measures, and what it loses
    fuzz                -> mainstay mainstay-core
    chaos               -> fake-server
";

/// The wall around the core: with these nothing can wait, or reach outside.
const CORE_DEPENDENCIES: &str = "
    normal  -> base64 cid foldhash jsonc-parser memchr regex serde serde_json sha2 thiserror
    dev     -> insta proptest
";

#[test]
fn rooms_know_what_the_table_says_and_no_more() {
    let table = table(ROOMS);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut faults = Vec::new();
    let (mut inhabited, mut used) = (BTreeSet::new(), BTreeSet::new());
    for file in rust_files(&source) {
        let text = fs::read_to_string(&file).expect("a readable source");
        let inside = file.strip_prefix(&source).expect("a file of src");
        let module = module(inside);
        let from = room(&table, &module);
        if !table.contains_key(&from) {
            faults.push(format!("src/{}: {from} has no line", inside.display()));
        }
        for Named { line, path } in paths(&text, &module) {
            let to = room(&table, &path);
            if is_in(&from, &to) {
                continue;
            }
            let known = table.get(&from).is_some_and(|knows| knows.contains(&to));
            if !known {
                faults.push(format!("src/{}:{line}: {from} -> {to}", inside.display()));
            }
            used.insert((from.clone(), to));
        }
        inhabited.insert(from);
    }
    for from in table.keys().filter(|from| !inhabited.contains(*from)) {
        faults.push(format!("in the table, and without a file: {from}"));
    }
    for (from, to) in arrows(&table) {
        if !used.contains(&(from.clone(), to.clone())) {
            faults.push(format!("in the table, and not needed: {from} -> {to}"));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn rooms_know_rooms_further_down_only() {
    let order: Vec<&str> = lines(ROOMS).map(|(from, _)| from).collect();
    let place = |room: &str| order.iter().position(|known| *known == room);
    for (from, to) in arrows(&table(ROOMS)) {
        let below = place(&to).unwrap_or_else(|| panic!("{to} has no line"));
        assert!(place(&from) < Some(below), "{from} -> {to} points up");
    }
}

#[test]
fn packages_need_what_the_table_says_and_no_more() {
    let packages = packages();
    let found: Table = packages
        .iter()
        .map(|(name, dependencies)| {
            let needed = dependencies.values().flatten().cloned();
            let ours = needed.filter(|needed| packages.contains_key(needed));
            (name.clone(), ours.collect())
        })
        .collect();
    assert_eq!(found, table(PACKAGES));
}

#[test]
fn the_core_needs_nothing_that_waits_or_reaches_outside() {
    assert_eq!(packages()["mainstay-core"], table(CORE_DEPENDENCIES));
}

type Table = BTreeMap<String, BTreeSet<String>>;

/// The lines of a table: `FROM -> TO TO // why`.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| line.split_once("->").expect("FROM -> TO"))
        .map(|(from, to)| (from.trim(), to))
}

fn table(text: &str) -> Table {
    lines(text)
        .map(|(from, to)| {
            (
                from.to_owned(),
                to.split_whitespace().map(str::to_owned).collect(),
            )
        })
        .collect()
}

fn arrows(table: &Table) -> impl Iterator<Item = (String, String)> {
    table
        .iter()
        .flat_map(|(from, to)| to.iter().map(|to| (from.clone(), to.clone())))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// `front/mcp/hub.rs` → front, mcp, hub. The root of the library has no name.
fn module(file: &Path) -> Vec<String> {
    let mut names: Vec<String> = file
        .with_extension("")
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib")) {
        names.pop();
    }
    names
}

/// The room that a path leads into.
fn room(table: &Table, path: &[String]) -> String {
    (1..=path.len())
        .rev()
        .map(|length| path[..length].join("/"))
        .find(|name| table.contains_key(name))
        .or_else(|| path.first().cloned())
        .unwrap_or_else(|| "lib".to_owned())
}

fn is_in(room: &str, house: &str) -> bool {
    room.strip_prefix(house)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The packages of the workspace, each with what its manifest needs, by kind.
fn packages() -> BTreeMap<String, Table> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let dependencies = |package: &Value| {
        let mut table = Table::new();
        for dependency in list(&package["dependencies"]) {
            let kind = dependency["kind"].as_str().unwrap_or("normal").to_owned();
            let names = table.entry(kind).or_default();
            names.insert(text(&dependency["name"]));
        }
        table
    };
    list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["name"]), dependencies(package)))
        .collect()
}

/// A path that a source names, from the root of the crate.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    line: usize,
    path: Vec<String>,
}

/// Every path of a source that begins with `crate`, `self`, `super` or our own name, in `use` or out
/// of it.
fn paths(source: &str, module: &[String]) -> Vec<Named> {
    let mut reader = Reader {
        tokens: tokens(source),
        named: Vec::new(),
    };
    let mut here = module.to_vec();
    // Modules written in braces, as the depth of their insides.
    let (mut depth, mut inline) = (0, Vec::new());
    let mut at = 0;
    while at < reader.tokens.len() {
        let base = match reader.text(at) {
            "{" => {
                depth += 1;
                None
            }
            "}" => {
                if inline.last() == Some(&depth) {
                    inline.pop();
                    here.pop();
                }
                depth -= 1;
                None
            }
            "mod" if reader.text(at + 2) == "{" => {
                here.push(reader.text(at + 1).to_owned());
                inline.push(depth + 1);
                None
            }
            _ if reader.text(at + 1) != "::" || at > 0 && reader.text(at - 1) == "::" => None,
            "crate" | "mainstay" => Some(Vec::new()),
            "self" => Some(here.clone()),
            "super" => Some(here[..here.len().saturating_sub(1)].to_vec()),
            _ => None,
        };
        at = match base {
            Some(base) => reader.tree(at + 2, base),
            None => at + 1,
        };
    }
    reader.named
}

struct Reader<'s> {
    tokens: Vec<Token<'s>>,
    named: Vec<Named>,
}

impl<'s> Reader<'s> {
    /// Nothing beyond the end.
    fn text(&self, at: usize) -> &'s str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// Reads what follows `base::`, which may be a tree in braces; returns where it ends.
    fn tree(&mut self, at: usize, mut base: Vec<String>) -> usize {
        match self.text(at) {
            "{" => {
                let mut at = at;
                loop {
                    at = self.tree(at + 1, base.clone());
                    if self.text(at) != "," {
                        return at + 1;
                    }
                }
            }
            // After a last comma.
            "}" => return at,
            "super" => {
                base.pop();
            }
            // `*`, and the `<` of a turbofish: what came before is what is named.
            "self" | "*" | "<" => {}
            name => base.push(name.to_owned()),
        }
        if self.text(at + 1) == "::" {
            return self.tree(at + 2, base);
        }
        self.named.push(Named {
            line: self.tokens[at].line,
            path: base,
        });
        let renamed = self.text(at + 1) == "as";
        at + if renamed { 3 } else { 1 }
    }
}

/// A word or a sign of a source; `::` is one.
struct Token<'s> {
    text: &'s str,
    line: usize,
}

/// A source without its comments, strings and characters.
fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let (length, counts) = if let Some(length) = silent(rest) {
            (length, false)
        } else if word(first) {
            (rest.find(|c| !word(c)).unwrap_or(rest.len()), true)
        } else if rest.starts_with("::") {
            (2, true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        let (text, after) = rest.split_at(length);
        if counts {
            tokens.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// The length of the comment, string or character that a text begins with.
fn silent(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    if let Some(rest) = text.strip_prefix('\'') {
        let mut chars = rest.chars();
        let first = chars.next()?;
        if first == '\\' {
            // The escaped character may be a quote itself.
            let escaped = 2 + chars.next()?.len_utf8();
            return Some(escaped + text[escaped..].find('\'')? + 1);
        }
        // Otherwise a lifetime, whose name is a word like any other.
        return (chars.next() == Some('\'')).then(|| first.len_utf8() + 2);
    }
    let prefix = text.find(|c| !matches!(c, 'b' | 'c' | 'r'))?;
    let raw = text[..prefix].ends_with('r');
    let hashes = text[prefix..]
        .find(|c| c != '#')
        .filter(|_| raw)
        .unwrap_or(0);
    let start = prefix + hashes + 1;
    let body = text[prefix + hashes..].strip_prefix('"')?;
    let end = if raw {
        let closing = format!("\"{}", "#".repeat(hashes));
        body.find(&closing)? + closing.len()
    } else {
        let mut escaped = false;
        let is_end = |c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        };
        body.find(is_end)? + 1
    };
    Some(start + end)
}

/// Comments in braces may hold others.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

#[test]
fn paths_are_found_wherever_they_stand() {
    for (source, expected) in [
        ("use crate::calls;", &["1 calls"][..]),
        ("use crate::calls::*;", &["1 calls"]),
        ("use crate::calls as c;\nuse std::fs;", &["1 calls"]),
        (
            "use crate::{\n    api::{self, Raw as R, client::{A, B,},},\n    calls,\n};",
            &[
                "2 api",
                "2 api/Raw",
                "2 api/client/A",
                "2 api/client/B",
                "3 calls",
            ],
        ),
        ("use super::mcp::Hub;", &["1 front/mcp/Hub"]),
        ("use super::super::calls;", &["1 calls"]),
        ("pub(super) use self::inner::X;", &["1 front/rest/inner/X"]),
        ("pub(in crate::front) fn f() {}", &["1 front"]),
        ("fn f(x: &crate::a::B<crate::c::D>) {}", &["1 a/B", "1 c/D"]),
        ("let x = crate::a::f::<u8>(1);", &["1 a/f"]),
        (
            "if x == (crate::a::B { c }) { super::d() }",
            &["1 a/B", "1 front/d"],
        ),
        ("use mainstay::{cli, demo};", &["1 cli", "1 demo"]),
        (
            "mod tests {\n  use super::*;\n  fn f() { super::super::g() }\n}\nuse super::h;",
            &["2 front/rest", "3 front/g", "5 front/h"],
        ),
        (
            "// crate::a\n/* crate::b /* */ crate::c */ crate::d",
            &["2 d"],
        ),
        (
            r##"("crate::a \" \\", r#"crate::b" "#, b'"', '\'', '"', crate::c)"##,
            &["1 c"],
        ),
        ("fn f<'a>(x: &'a crate::b) { 'c' }", &["1 b"]),
        (
            "pub(crate) fn f(self) -> Self { Self::g(other::crate::x) }",
            &[],
        ),
    ] {
        let module = ["front".to_owned(), "rest".to_owned()];
        let found: Vec<String> = paths(source, &module)
            .iter()
            .map(|Named { line, path }| format!("{line} {}", path.join("/")))
            .collect();
        assert_eq!(found, expected, "{source}");
    }
}

#[test]
fn a_path_leads_into_the_smallest_room_that_holds_it() {
    let table = table("cli ->\n cli/serve ->\n front ->\n front/mcp ->");
    for (path, expected) in [
        ("cli/list.rs", "cli"),
        ("cli/mod.rs", "cli"),
        ("cli/serve.rs", "cli/serve"),
        ("front/mcp/hub.rs", "front/mcp"),
        ("front/mcpx.rs", "front"),
        ("other/thing.rs", "other"),
        ("lib.rs", "lib"),
        ("main.rs", "main"),
    ] {
        assert_eq!(room(&table, &module(Path::new(path))), expected, "{path}");
    }
    assert!(is_in("cli/serve", "cli") && is_in("cli", "cli"));
    assert!(!is_in("cli", "cli/serve") && !is_in("client", "cli"));
}
