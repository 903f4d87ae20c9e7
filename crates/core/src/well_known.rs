//! The paths of OAuth's metadata documents below `/.well-known` (RFC 8414, 3.1; RFC 9728, 3.1; OpenID Connect
//! Discovery 1.0, 4).

const RESOURCE_PATH: &str = "/.well-known/oauth-protected-resource";
const OAUTH_PATH: &str = "/.well-known/oauth-authorization-server";
const OPENID_PATH: &str = "/.well-known/openid-configuration";

/// The path of the metadata of a protected resource with this path.
pub fn resource_metadata_path(path: &str) -> String {
    format!("{RESOURCE_PATH}{}", path.trim_end_matches('/'))
}

/// The paths of the metadata of an authorization server whose URL has this path, in the order in which they are asked.
pub fn issuer_metadata_paths(path: &str) -> Vec<String> {
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return vec![OAUTH_PATH.to_owned(), OPENID_PATH.to_owned()];
    }
    vec![
        format!("{OAUTH_PATH}{path}"),
        format!("{OPENID_PATH}{path}"),
        format!("{path}{OPENID_PATH}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_url_is_part_of_the_path_of_its_metadata() {
        assert_eq!(
            issuer_metadata_paths("/tenant1/"),
            [
                "/.well-known/oauth-authorization-server/tenant1",
                "/.well-known/openid-configuration/tenant1",
                "/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            issuer_metadata_paths("/"),
            [
                "/.well-known/oauth-authorization-server",
                "/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            resource_metadata_path("/mcp"),
            "/.well-known/oauth-protected-resource/mcp"
        );
        assert_eq!(
            resource_metadata_path("/"),
            "/.well-known/oauth-protected-resource"
        );
    }
}
