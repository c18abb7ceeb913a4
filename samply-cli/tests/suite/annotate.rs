//! `sprof annotate`.
#![cfg(target_os = "linux")]

#[test]
fn functions_of_one_name_are_one_row_with_the_sum_of_both() {
    let dir = crate::support::temp_dir();
    let path = dir.path().join("two.txt");
    // As `perf script` writes it: two static functions of one name, in two libraries; 2 + 1 samples, of 4.
    let sample = |ms: u32, leaf: &str| {
        format!("app 7 1.{ms:03}: 1000000 cpu-clock:\n\t    1000 {leaf}\n\t    2000 main (/app)\n\n")
    };
    let text = [
        sample(1, "same (/a.so)"),
        sample(2, "same (/a.so)"),
        sample(3, "same (/b.so)"),
        sample(4, "other (/b.so)"),
    ];
    std::fs::write(&path, text.concat()).unwrap();
    let output = crate::support::run::output(crate::support::sprof().arg("annotate").arg(&path).arg("same"));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        shown.contains("self 75.0 % (3 samples), total 75.0 %, of 4 samples"),
        "{shown}\n{output:?}"
    );
}
