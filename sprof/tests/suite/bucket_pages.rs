//! `sprof serve s3://...`: the profiles of a bucket have the pages of a folder.
#![cfg(target_os = "linux")]

use crate::bucket::{credentials, endpoint, refused, sprof};
use crate::serve_dir;
use crate::server::Served;
use crate::share::{User, text};
use crate::support::bucket::s3;
use crate::support::store::{Behaviour, StandIn};
use crate::support::temp_dir;

/// The gallery of a bucket, with the stand-in's or other credentials.
fn gallery(place: &str, endpoint: &str, options: &[&str]) -> Served {
    Served::of(place, temp_dir(), &credentials(endpoint), options)
}

/// Three profiles of `shop`, and what is none.
fn put_profiles(put: &mut dyn FnMut(&str, Vec<u8>)) {
    let folder = temp_dir();
    for (day, own) in [
        (1, [50, 300, 200, 450]),
        (2, [50, 400, 200, 350]),
        (3, [50, 600, 150, 200]),
    ] {
        let path = folder.path().join("profile.json");
        serve_dir::profile(&path, "shop", serve_dir::NAMES, day, own);
        put(&format!("ci/{day} +.json"), std::fs::read(&path).unwrap());
    }
    put("ci/large.json", vec![b'x'; 200_000]);
    put("ci/notes.md", b"no profile".to_vec());
    put("ci/.hidden.json", b"{}".to_vec());
    put("other/4.json", b"{}".to_vec());
    put("ci-2/5.json", b"{}".to_vec());
}

#[test]
fn profiles_of_a_bucket_have_the_pages_of_a_folder() {
    let server = StandIn::start_as(Behaviour::Honest, s3);
    put_profiles(&mut |key, bytes| {
        server.with(|state| drop(state.objects.insert(format!("/open/{key}"), (bytes, 1))));
    });
    server.with(|state| {
        let dots = "/open/ci/../x.json".to_owned();
        state.objects.insert(dots, (b"{}".to_vec(), 1));
    });
    let served = gallery("s3://open/ci", &endpoint(&server), &["--max-size", "100k"]);
    let page = serve_dir::list(&served);
    for day in 1..=3 {
        assert!(page.contains(&format!("{day} +.json")), "{page}");
    }
    assert!(serve_dir::row(&page, "large.json").contains("the limit of this server"));
    for other in ["notes.md", "hidden", "4.json", "5.json", "plant", "X-Amz"] {
        assert!(!page.contains(other), "{other} in {page}");
    }
    assert!(
        page.contains("1 objects have keys that can&#39;t be addresses"),
        "{page}"
    );
    assert!(serve_dir::row(&page, "3 +.json").contains("60.0 %"), "{page}");
    let id = |day: u32| serve_dir::id(&page, &format!("{day} +.json"));
    let get = |path: &str| served.get(&served.secret(path));
    let stored = server.with(|state| state.objects["/open/ci/3 +.json"].0.clone());
    for (name, kind) in [
        ("", "text/html"),
        ("view/", "text/html"),
        ("view/data", "application/"),
        ("flame.svg", "image/svg"),
    ] {
        let reply = get(&format!("/p/{}/{name}", id(3)));
        assert_eq!(reply.status, 200, "{name}: {reply:?}");
        assert!(reply.header("content-type").unwrap().starts_with(kind), "{reply:?}");
    }
    for name in ["file", "profile.json"] {
        assert_eq!(get(&format!("/p/{}/{name}", id(3))).body, stored, "{name}");
    }
    let diff = serve_dir::text(&get(&format!("/diff?before={}&after={}", id(1), id(3))));
    assert!(diff.contains("hash"), "{diff}");
    // No more than the list and what was read: the large file was not, and nothing was changed.
    let calls = server.calls();
    assert!(
        !calls.iter().any(|call| call.starts_with("GET /open/ci/large.json")),
        "{calls:?}"
    );
    assert!(calls.iter().all(|call| call.starts_with("GET /open/")), "{calls:?}");
    // A file that changes between the list and the request is not mistaken for the listed one.
    server.with(|state| {
        let (bytes, _) = state.objects.get_mut("/open/ci/1 +.json").unwrap();
        bytes[10] ^= 1;
    });
    let changed = get(&format!("/p/{}/file", id(1)));
    assert!(
        changed.status == 500 && text(&changed.body).contains("has changed"),
        "{changed:?}"
    );
}

#[test]
fn a_server_that_is_busy_for_a_moment_loses_no_file() {
    let server = StandIn::start_as(Behaviour::Honest, s3);
    put_profiles(&mut |key, bytes| {
        server.with(|state| drop(state.objects.insert(format!("/open/{key}"), (bytes, 1))));
    });
    server.with(|state| state.busy = 2);
    let served = gallery("s3://open/ci", &endpoint(&server), &[]);
    let page = serve_dir::list(&served);
    assert!(page.contains("3 +.json") && page.contains("3 profiles"), "{page}");
    assert_eq!(server.with(|state| state.busy), 0);
}

#[test]
fn a_bucket_that_cannot_be_listed_is_no_page() {
    let user = User::new();
    for (behaviour, words) in [
        (Behaviour::Honest, "NoSuchBucket"),
        (Behaviour::Says("<html></html>"), "not a list of a bucket"),
        (
            Behaviour::Says("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
            "where the next page begins",
        ),
        (
            Behaviour::Says(
                "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken></ListBucketResult>",
            ),
            "its next page is itself",
        ),
        (
            Behaviour::Replies(403, "", "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"),
            "s3:ListBucket",
        ),
    ] {
        let server = StandIn::start_as(behaviour, s3);
        let mut command = sprof(&user, &endpoint(&server));
        refused(&user, command.args(["serve", "s3://none", "--port", "0"]), &[words]);
    }
}
