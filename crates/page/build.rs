//! Puts the built page (`ui/dist`) into the program: each file compressed once, here, and a table of all.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hasher as _},
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};

/// Where the build of the page stands, from this package.
const DIST: &str = "../../ui/dist";

fn main() -> Result<(), Box<dyn Error>> {
    let dist = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join(DIST);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={DIST}");
    let mut files = vec![("/".to_owned(), dist.join("index.html"))];
    let icon = dist.join("favicon.svg");
    if icon.exists() {
        files.push(("/favicon.svg".to_owned(), icon));
    }
    let assets = dist.join("assets");
    if assets.exists() {
        for entry in fs::read_dir(&assets)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or("a file of ui/dist/assets has a name that is no text")?;
            files.push((format!("/assets/{name}"), path));
        }
    }
    files.sort();
    let mut table = String::from("pub static FILES: &[File] = &[\n");
    for (number, (path, file)) in files.iter().enumerate() {
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let kind = media_type(file)
            .ok_or_else(|| format!("{}: no media type is known for it", file.display()))?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        let tag = format!("W/\"{:016x}-{:x}\"", hasher.finish(), bytes.len());
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&bytes)?;
        let compressed = encoder.finish()?;
        // Fonts are compressed already.
        let is_smaller = compressed.len() < bytes.len();
        let kept = format!("{number}.bin");
        fs::write(
            out.join(&kept),
            if is_smaller { &compressed } else { &bytes },
        )?;
        writeln!(
            table,
            "    File {{ path: {path:?}, media_type: {kind:?}, tag: {tag:?}, is_gzip: {is_smaller}, bytes: include_bytes!({kept:?}) }},"
        )?;
    }
    table.push_str("];\n");
    fs::write(out.join("files.rs"), table)?;
    Ok(())
}

fn media_type(file: &Path) -> Option<&'static str> {
    Some(match file.extension()?.to_str()? {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => return None,
    })
}
