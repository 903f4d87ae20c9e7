use axum::http::Request;
use http_body_util::BodyExt as _;
use tower_service::Service as _;

use super::*;

/// `hello` with and without gzip.
const FILES_OF_TESTS: &[File] = &[
    File {
        path: "/",
        media_type: "text/html; charset=utf-8",
        tag: "W/\"1-5\"",
        is_gzip: true,
        bytes: &[
            31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5,
            0, 0, 0,
        ],
    },
    File {
        path: "/assets/font-1234.woff2",
        media_type: "font/woff2",
        tag: "W/\"2-5\"",
        is_gzip: false,
        bytes: b"hello",
    },
];

fn headers(given: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        headers.append(name, HeaderValue::from_str(value).expect("a header"));
    }
    headers
}

async fn body(response: Response) -> Vec<u8> {
    let body = response.into_body().collect().await.expect("a body");
    body.to_bytes().to_vec()
}

fn header<'r>(response: &'r Response, name: &HeaderName) -> Option<&'r str> {
    let value = response.headers().get(name);
    value.map(|value| value.to_str().expect("text"))
}

#[tokio::test]
async fn a_file_is_sent_compressed_to_those_that_take_it() {
    let get = |path, encoding: &str| {
        let asked = headers(&[(header::ACCEPT_ENCODING, encoding)]);
        answer(FILES_OF_TESTS, &Method::GET, path, &asked)
    };
    for (encoding, is_compressed) in [
        ("gzip", true),
        ("br, GZIP;q=0.5", true),
        ("deflate", false),
        ("gzip;q=0", false),
        ("gzip; q=0.000", false),
        ("", false),
    ] {
        let response = get("/", encoding);
        let found = header(&response, &header::CONTENT_ENCODING) == Some("gzip");
        assert_eq!(found, is_compressed, "{encoding}");
        let expected = if is_compressed {
            FILES_OF_TESTS[0].bytes
        } else {
            b"hello"
        };
        assert_eq!(body(response).await, expected, "{encoding}");
    }
    let font = get("/assets/font-1234.woff2", "gzip");
    assert_eq!(header(&font, &header::CONTENT_ENCODING), None);
    assert_eq!(header(&font, &header::CONTENT_TYPE), Some("font/woff2"));
    assert_eq!(body(font).await, b"hello");
}

#[test]
fn the_index_is_asked_for_again_and_assets_are_kept() {
    let get = |path, tags: &[(HeaderName, &str)]| {
        answer(FILES_OF_TESTS, &Method::GET, path, &headers(tags))
    };
    let index = get("/", &[]);
    assert_eq!(header(&index, &header::CACHE_CONTROL), Some("no-cache"));
    let asset = get("/assets/font-1234.woff2", &[]);
    let kept = "public, max-age=31536000, immutable";
    assert_eq!(header(&asset, &header::CACHE_CONTROL), Some(kept));
    for (tags, expected) in [
        ("W/\"1-5\"", 304),
        ("\"1-5\"", 304),
        ("\"x\", W/\"1-5\"", 304),
        ("*", 304),
        ("W/\"2-5\"", 200),
        ("", 200),
    ] {
        let response = get("/", &[(header::IF_NONE_MATCH, tags)]);
        assert_eq!(response.status().as_u16(), expected, "{tags}");
        assert_eq!(header(&response, &header::ETAG), Some("W/\"1-5\""));
    }
}

#[test]
fn nothing_else_is_served() {
    for (method, path, expected) in [
        (Method::GET, "/assets/font-1234.woff", 404),
        (Method::GET, "/assets/../assets/font-1234.woff2", 404),
        (Method::GET, "/index.html", 404),
        (Method::POST, "/", 405),
        (Method::OPTIONS, "/assets/font-1234.woff2", 405),
    ] {
        let response = answer(FILES_OF_TESTS, &method, path, &HeaderMap::new());
        assert_eq!(response.status().as_u16(), expected, "{method} {path}");
        let allowed = header(&response, &header::ALLOW);
        assert_eq!(allowed, (expected == 405).then_some("GET, HEAD"));
    }
}

/// Checks the embedded build, fresh or committed: its index refers only to files of the build, and
/// to no other host.
#[tokio::test]
async fn the_embedded_build_is_whole() {
    let mut router = router::<()>();
    let mut get = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        router.call(request).await.expect("infallible")
    };
    let index = get("/").await;
    assert_eq!(index.status(), StatusCode::OK);
    for (name, value) in HEADERS {
        assert_eq!(header(&index, &name), Some(value), "{name}");
    }
    let text = String::from_utf8(body(index).await).expect("UTF-8");
    assert!(!text.contains("://"), "{text}");
    for attribute in ["src=\"", "href=\""] {
        for rest in text.split(attribute).skip(1) {
            let path = rest.split('"').next().unwrap_or_default();
            let path = format!("/{}", path.trim_start_matches(['.', '/']));
            let response = get(&path).await;
            assert_eq!(response.status(), StatusCode::OK, "{path}");
            assert_eq!(
                header(&response, &header::X_CONTENT_TYPE_OPTIONS),
                Some("nosniff")
            );
        }
    }
}
