//! Turns an offer and its answers into the command or the URL that runs the server.

use crate::{
    inputs::{self, BadInput},
    listing::{Package, Transport},
    offer::{Offer, OfferKind, OfferSource},
    question::Answers,
    recipe::{Recipe, Text},
};

/// The recipe of an offer. Bundles have their own: see [`crate::manifest::Manifest::recipe`].
pub fn recipe(offer: &Offer, answers: &Answers) -> Result<Recipe, BadInput> {
    match &offer.source {
        OfferSource::Remote(transport) => Ok(remote(transport, answers)),
        OfferSource::Package(package) => command(offer, package, answers),
    }
}

fn remote(transport: &Transport, answers: &Answers) -> Recipe {
    let header = |header: &inputs::Named<'_>| {
        let text = inputs::texts(header.name, header.input, answers)
            .into_iter()
            .next();
        text.map(|text| (header.name.to_owned(), text))
    };
    let headers = inputs::named(&transport.headers);
    Recipe::Url {
        url: inputs::url(transport, answers),
        transport: if transport.kind == "sse" {
            "sse"
        } else {
            "http"
        },
        headers: headers.iter().filter_map(header).collect(),
    }
}

/// The package with its version, in the spelling of its runtime.
pub fn reference(kind: OfferKind, package: &Package) -> String {
    let identifier = &package.identifier;
    let version = package
        .version
        .as_deref()
        .filter(|version| !version.is_empty());
    match (kind, version) {
        (OfferKind::Oci, Some(version)) => {
            let last = identifier.rsplit('/').next().unwrap_or_default();
            if last.contains([':', '@']) {
                identifier.clone()
            } else {
                format!("{identifier}:{version}")
            }
        }
        (OfferKind::Npm | OfferKind::Pypi | OfferKind::Nuget, Some(version)) => {
            format!("{identifier}@{version}")
        }
        _ => identifier.clone(),
    }
}

fn command(offer: &Offer, package: &Package, answers: &Answers) -> Result<Recipe, BadInput> {
    let mut env = Vec::new();
    for variable in inputs::named(&package.environment_variables) {
        let text = inputs::texts(variable.name, variable.input, answers)
            .into_iter()
            .next();
        env.extend(text.map(|text| (variable.name.to_owned(), text)));
    }
    let mut of_runtime = Vec::new();
    for argument in &package.runtime_arguments {
        of_runtime.extend(inputs::words(argument, answers)?);
    }
    let starts_with = |words: &[&str]| {
        of_runtime
            .iter()
            .any(|text| words.contains(&text.value.as_str()))
    };
    let mut args: Vec<Text> = Vec::new();
    let reference = match offer.runtime {
        "npx" => {
            if !starts_with(&["-y", "--yes"]) {
                args.push(Text::open("-y"));
            }
            reference(offer.kind, package)
        }
        // With --from, the next argument is a command of that package and has no version.
        "uvx" if starts_with(&["--from"]) => package.identifier.clone(),
        "pipx" => {
            if of_runtime.first().is_none_or(|text| text.value != "run") {
                args.push(Text::open("run"));
            }
            // pipx spells versions like pip.
            reference(offer.kind, package).replace('@', "==")
        }
        "docker" | "podman" => {
            args.push(Text::open("run"));
            if of_runtime.first().is_some_and(|text| text.value == "run") {
                of_runtime.remove(0);
            }
            let starts_with = |words: &[&str]| {
                of_runtime
                    .iter()
                    .any(|text| words.contains(&text.value.as_str()))
            };
            if !starts_with(&["-i", "--interactive", "-it"]) {
                args.push(Text::open("-i"));
            }
            if !starts_with(&["--rm"]) {
                args.push(Text::open("--rm"));
            }
            reference(offer.kind, package)
        }
        "dnx" => {
            if !starts_with(&["--yes", "-y"]) {
                args.push(Text::open("--yes"));
            }
            reference(offer.kind, package)
        }
        _ => reference(offer.kind, package),
    };
    let is_container = offer.kind == OfferKind::Oci;
    args.extend(of_runtime);
    if is_container {
        // Only the names are arguments. The values are in the environment of the command, where
        // `ps` does not show them.
        args.extend(
            env.iter()
                .flat_map(|(name, _)| [Text::open("-e"), Text::open(name.as_str())]),
        );
    }
    args.push(Text::literal(&reference));
    let mut of_package = Vec::new();
    for argument in &package.package_arguments {
        of_package.extend(inputs::words(argument, answers)?);
    }
    if offer.runtime == "dnx" && !of_package.is_empty() {
        args.push(Text::open("--"));
    }
    args.extend(of_package);
    Ok(Recipe::Command {
        command: Text::open(offer.runtime),
        args,
        env,
        cwd: None,
    })
}
