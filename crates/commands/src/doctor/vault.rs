//! Checks where the vault's key is, and who can use it.

use mainstay_core::failure::with_causes;
use mainstay_platform::{
    state::StateDir,
    vault::{self, KeyPlace},
};

use super::{finding::DoctorFinding, machine::readable};

/// A finding about the key of the vault. There is none if the vault does not exist.
pub fn check(state: &StateDir) -> Vec<DoctorFinding> {
    let folder = state.vault();
    if !folder.exists() {
        return Vec::new();
    }
    let key = folder.join("key");
    let mut findings: Vec<DoctorFinding> = [&folder, &key]
        .into_iter()
        .filter_map(|path| readable(path))
        .collect();
    match vault::shared(state).key_place() {
        Err(error) => findings.push(
            DoctorFinding::error("vault.unusable", with_causes(&error))
                .consequence("no secret and no login of the vault can be used")
                .mend(format!(
                    "ls -l {}  # it has to be yours alone",
                    super::finding::quoted(&key)
                )),
        ),
        Ok(None) => {}
        Ok(Some(KeyPlace::Keyring)) => findings.push(DoctorFinding::ok(
            "vault.keyring",
            "the key of the vault is in the system's keyring",
        )),
        Ok(Some(KeyPlace::File)) if findings.is_empty() => findings.push(DoctorFinding::ok(
            "vault.file",
            format!(
                "the key of the vault is in {}, with mode 0600",
                key.display()
            ),
        )),
        Ok(Some(KeyPlace::File)) => {}
    }
    findings
}
