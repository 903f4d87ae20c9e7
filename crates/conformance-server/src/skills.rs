//! The one skill of this server (SEP-2640): a directory of files that are read
//! as resources, listed with the digest and size of their bytes.

use rmcp::{
    ErrorData,
    model::{
        DIRECTORY_MIME_TYPE, Resource, ResourceContents, Skill, SkillFrontmatter, SkillResource,
        SkillResources,
    },
};
use serde_json::json;

const NAME: &str = "field-notes";
/// The description, as in the frontmatter of the file.
const DESCRIPTION: &str = "How to take notes in the field";
const ROOT: &str = "skill://field-notes";
const MANIFEST: &str = "skill://field-notes/SKILL.md";
const MARKDOWN: &str = "text/markdown";

/// The files below the root: URI and text.
const FILES: [(&str, &str); 2] = [
    (MANIFEST, include_str!("skill/SKILL.md")),
    (
        "skill://field-notes/references/words.md",
        include_str!("skill/references/words.md"),
    ),
];

pub fn all() -> Vec<Skill> {
    let files = FILES
        .map(|(uri, text)| SkillResource::from_bytes(uri, text.as_bytes()))
        .into();
    vec![Skill::new(
        MANIFEST,
        SkillFrontmatter::new(NAME, DESCRIPTION),
        SkillResources::Files(files),
    )]
}

pub fn get(uri: &str) -> Result<Skill, ErrorData> {
    let skill = all().into_iter().find(|skill| skill.uri == uri);
    skill.ok_or_else(|| not_here("there is no such skill", uri))
}

/// The entry of `resources/list`.
pub fn manifest() -> Resource {
    Resource::new(MANIFEST, NAME)
        .with_description(DESCRIPTION)
        .with_mime_type(MARKDOWN)
}

pub fn contents(uri: &str) -> Option<ResourceContents> {
    let (_, text) = FILES.into_iter().find(|(file, _)| *file == uri)?;
    Some(ResourceContents::text(text, uri).with_mime_type(MARKDOWN))
}

/// The direct children of a directory.
pub fn children(directory: &str) -> Result<Vec<Resource>, ErrorData> {
    let references = format!("{ROOT}/references");
    let directory = directory.trim_end_matches('/');
    if directory == ROOT {
        let subdirectory = Resource::new(references, "references");
        return Ok(vec![
            manifest(),
            subdirectory.with_mime_type(DIRECTORY_MIME_TYPE),
        ]);
    }
    if directory == references {
        let words = Resource::new(FILES[1].0, "words.md");
        return Ok(vec![words.with_mime_type(MARKDOWN)]);
    }
    Err(not_here("not a directory", directory))
}

fn not_here(reason: &'static str, uri: &str) -> ErrorData {
    ErrorData::invalid_params(reason, Some(json!({ "uri": uri })))
}
