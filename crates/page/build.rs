//! Embeds the built page in the program: compresses each file once, and writes a table of all.
//!
//! The build is `ui/build/page` if it exists: developers, CI and releases make it (`ui/fresh`). Else it is
//! `ui/dist`, the committed page of the last release, so that cargo alone builds Mainstay.

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

mod page_build;

use page_build::PageBuild;

/// The folder of the page's sources and builds, from this package.
const UI: &str = "../../ui";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Build scripts run in the folder of their package.
    let build = PageBuild::find(Path::new(UI))?;
    for path in &build.watched {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    if let Some(source) = &build.newer_source {
        println!(
            "cargo::warning=the page of ui/build is older than {}: run ui/fresh, or remove ui/build/page",
            source.strip_prefix("../..").unwrap_or(source).display(),
        );
    }
    let mut files = vec![("/".to_owned(), build.folder.join("index.html"))];
    let icon = build.folder.join("favicon.svg");
    if icon.exists() {
        files.push(("/favicon.svg".to_owned(), icon));
    }
    let assets = build.folder.join("assets");
    if assets.exists() {
        for entry in fs::read_dir(&assets)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or("an asset of the page has a name that is no UTF-8")?;
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
