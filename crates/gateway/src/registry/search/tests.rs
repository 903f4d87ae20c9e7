use mainstay_core::{
    catalog::{Part, ServerCatalog, page},
    config::{Naming, ProfileConfig, Withheld},
    ids::{ProfileName, ServerName},
};
use serde_json::json;

use super::*;

/// A catalog with tools like those of real servers.
fn realistic() -> Catalog {
    let mut servers: Vec<(&str, Vec<Value>)> = Vec::new();
    for line in include_str!("tools.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let [server, name, description, parameters] = fields(line, " | ");
        let parameters = parameters.split("; ").map(|parameter| {
            let [name, description] = fields(parameter, ": ");
            (
                name.to_owned(),
                json!({"type": "string", "description": description}),
            )
        });
        let schema =
            json!({"type": "object", "properties": parameters.collect::<serde_json::Map<_, _>>()});
        let tool = json!({"name": name, "description": description, "inputSchema": schema});
        match servers.last_mut().filter(|(last, _)| *last == server) {
            Some((_, tools)) => tools.push(tool),
            None => servers.push((server, vec![tool])),
        }
    }
    catalog(servers.into_iter())
}

fn fields<'a, const N: usize>(line: &'a str, separator: &str) -> [&'a str; N] {
    let fields: Vec<&str> = line.splitn(N, separator).collect();
    fields.try_into().unwrap_or_else(|_| panic!("{line}"))
}

fn catalog<'a>(servers: impl Iterator<Item = (&'a str, Vec<Value>)>) -> Catalog {
    let part = |(server, tools)| {
        let mut catalog = ServerCatalog::default();
        let list = json!({"tools": tools}).to_string();
        catalog.set(
            ListKind::Tools,
            page(ListKind::Tools, &list, usize::MAX)
                .expect("a list")
                .items,
        );
        Part {
            server: ServerName::new(server).expect("a name"),
            catalog: Arc::new(catalog),
            withheld: Withheld::default(),
            cuts_results: false,
        }
    };
    let everything = ProfileConfig::everything(ProfileName::default());
    Catalog::merge(
        servers.map(part).collect(),
        &everything,
        Naming::DoubleUnderscore,
        48,
        &Arc::default(),
    )
}

/// Tests queries as people write them. Each has the tool that must come first.
#[test]
fn who_describes_a_tool_finds_it_first() {
    let catalog = realistic();
    let index = Index::new(&catalog, &[]);
    let targets = catalog.targets(ListKind::Tools);
    assert!(targets.len() > 60, "{}", targets.len());
    let mut faults = Vec::new();
    for (query, expected) in [
        ("read a file", "read_file"),
        ("show me the contents of a text file", "read_file"),
        ("write content to a file", "write_file"),
        ("overwrite existing file", "write_file"),
        ("rename a file", "move_file"),
        ("make a directory", "create_directory"),
        ("list files in directory", "list_directory"),
        ("find files by name pattern", "search_files"),
        ("file size and permissions", "get_file_info"),
        ("what changed in the working tree", "git_status"),
        ("commit my changes", "git_commit"),
        ("commit history", "git_log"),
        ("switching to another branch", "git_checkout"),
        ("create branch", "git_create_branch"),
        ("open a pull request on github", "createPullRequest"),
        ("create an issue in a repository", "createIssue"),
        ("create issue", "createIssue"),
        ("comment on issue", "addIssueComment"),
        ("merge PR with squash", "mergePullRequest"),
        ("search code in repositories", "searchCode"),
        ("post a message to slack", "slack_post_message"),
        ("send a message to a channel", "slack_post_message"),
        ("reply in thread", "slack_reply_to_thread"),
        ("emoji reaction", "slack_add_reaction"),
        ("who is in the workspace", "slack_get_users"),
        ("run a SQL select query", "query"),
        ("update rows with a statement", "execute"),
        ("which tables are in the database schema", "list_tables"),
        ("columns of a table", "describe_table"),
        ("navigate to a url", "browser_navigate"),
        ("click a button on the page", "browser_click"),
        ("take screenshot", "browser_take_screenshot"),
        ("invite attendees to a meeting at a place", "create_event"),
        ("upcoming calendar events", "list_events"),
        ("when is everybody free to meet", "find_free_slots"),
        ("send an email with an attachment", "send_email"),
        ("archive messages", "modify_labels"),
        ("jira bug", "jira_create_issue"),
        ("upload to s3", "s3_put_object"),
        ("virtual machines", "ec2_describe_instances"),
        ("invoke lambda function", "lambda_invoke"),
        ("kubernetes pods", "kubectl_get_pods"),
        ("container logs", "kubectl_logs"),
        ("scale deployment replicas", "kubectl_scale"),
        ("start a docker container from an image", "run_container"),
        ("will it rain tomorrow, weather forecast", "get_forecast"),
        ("time zone conversion: convert time", "convert_time"),
        ("coordinates of an address", "maps_geocode"),
        (
            "walking directions from one place to another",
            "maps_directions",
        ),
        ("download a url as markdown", "fetch"),
        ("search the web for news", "brave_web_search"),
        ("refund a customer's record_crash", "stripe_create_refund"),
        ("stack trace of an error", "sentry_get_issue"),
        // Names of tools, in several spellings.
        ("createIssue", "createIssue"),
        ("git_log", "git_log"),
        ("db__query", "query"),
        ("BROWSER_TYPE", "browser_type"),
    ] {
        let first = index
            .search(query)
            .first()
            .map(|place| &*targets[*place].original);
        if first != Some(expected) {
            faults.push(format!("{query:?}: {first:?} instead of {expected}"));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn parameters_and_their_values_are_found() {
    let schema = json!({"properties": {"filter": {"anyOf": [
        {"properties": {"inseamLength": {"description": "of trousers"}}},
        {"enum": ["corduroy"]},
    ]}}});
    let tools = vec![
        json!({"name": "other"}),
        json!({"name": "buy", "inputSchema": schema}),
    ];
    let catalog = catalog([("shop", tools)].into_iter());
    let index = Index::new(&catalog, &[]);
    for query in ["filter", "inseam", "trousers", "corduroy"] {
        assert_eq!(index.search(query), [1], "{query}");
    }
    assert_eq!(index.search("shop"), [0, 1], "equals stand as in the list");
    for query in ["", "the", "?!", "unheard"] {
        assert!(index.search(query).is_empty(), "{query}");
    }
}

#[test]
fn names_are_split_where_words_begin() {
    for (text, expected) in [
        ("getHTTPUrl", "get http url"),
        ("read_multiple-files", "read multipl fil"),
        ("kubectl.get/pods2", "kubectl get pods2"),
        ("S3 put_object", "s3 put object"),
        ("deleting deleted deletes delete", "delet delet delet delet"),
        ("queries query", "query query"),
        ("running run", "run run"),
        ("calling call", "call call"),
        ("status class analysis", "status class analysis"),
        ("größe Über", "größe über"),
        ("天気予報 tokyo", "天 気 予 報 tokyo"),
    ] {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.to_owned()));
        assert_eq!(words.join(" "), expected, "{text}");
    }
}

/// Only new and changed tools are indexed again.
#[test]
fn what_has_not_changed_is_taken_over() {
    let catalog_with = |tools: &[(&str, &str)]| {
        let tool = |(name, words): &(&str, &str)| json!({"name": name, "description": words});
        let other = vec![json!({"name": "other"})];
        catalog([("x", tools.iter().map(tool).collect()), ("y", other)].into_iter())
    };
    let before = catalog_with(&[("one", "alpha"), ("two", "beta")]);
    let before = Arc::new(Index::new(&before, &[]));
    let after = catalog_with(&[("zero", "beta"), ("one", "alpha"), ("two", "gamma")]);
    let after = Index::new(&after, &[Arc::clone(&before)]);
    let documents = |index: &Index| index.segments[0].1.documents.clone();
    assert!(Arc::ptr_eq(&documents(&after)[1], &documents(&before)[0]));
    assert!(!Arc::ptr_eq(&documents(&after)[2], &documents(&before)[1]));
    // An unchanged server keeps its segment at another place in the list.
    assert!(Arc::ptr_eq(&after.segments[1].1, &before.segments[1].1));
    for (query, expected) in [
        ("alpha", [1]),
        ("beta", [0]),
        ("gamma", [2]),
        ("other", [3]),
    ] {
        assert_eq!(after.search(query), expected, "{query}");
    }
}

/// The result of a search does not depend on whether segments are new or reused.
#[test]
fn segments_do_not_show() {
    let catalog = realistic();
    let first_index = Arc::new(Index::new(&catalog, &[]));
    let second_index = Index::new(&catalog, &[Arc::clone(&first_index)]);
    assert!(
        first_index.segments.len() > 10,
        "{}",
        first_index.segments.len()
    );
    for query in ["create issue", "read a file", "logs of a container", "y"] {
        assert_eq!(
            second_index.search(query),
            first_index.search(query),
            "{query}"
        );
    }
    let shared = first_index.segments.iter().zip(&second_index.segments);
    assert!(shared.into_iter().all(|(a, b)| Arc::ptr_eq(&a.1, &b.1)));
}
