//! What the front end shows of a profile before anybody clicks: which tracks, in which order, how high.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::*;

#[test]
fn a_new_name_makes_no_track_higher() {
    let mut stream = Stream::with_app();
    stream.thread(1, 2, 1);
    stream.rename(1, 2, "worker", 1);
    stream.rename(1, 2, "other", 2);
    stream.sample(1, 2, 3, &[ip(0x1020)]);
    stream.process(3, Some(1), 4);
    let json = written(&stream.finish());
    assert_eq!(markers(thread(&json, "2")).len(), 2);
    assert_eq!(thread(&json, "2")["showMarkersInTimeline"], false);
    // Its child.
    assert_eq!(thread(&json, "1")["showMarkersInTimeline"], true);
    let schemas = json["meta"]["markerSchema"].as_array().unwrap();
    let renamed = schemas.iter().find(|schema| schema["name"] == "Renamed").unwrap();
    assert_eq!(renamed["display"], serde_json::json!(["marker-chart", "marker-table"]));
}

#[test]
fn an_upload_is_careful_by_default() {
    let json = written(&Stream::with_app().finish());
    assert_eq!(json["meta"]["updateChannel"], "release");
}
