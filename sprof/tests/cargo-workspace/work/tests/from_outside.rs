#[test]
fn a_test_that_passes_after_a_while() {
    assert_ne!(work::rounds(8 * work::SOME), 1);
}

#[test]
fn a_test_that_fails_where_it_is_told_to() {
    assert!(std::env::var_os("WORK_FAILS").is_none(), "told to fail");
}
