//! Each defect in `tests/DEFECTS.md` has a test that fails if the defect returns, or a reason why there is none.

use std::collections::BTreeSet;

use tests::defects::{defects, find, ids_in};

#[test]
fn defect_p7_every_defect_has_a_test_of_its_name_or_the_reason_why_not() {
    let (defects, found) = (defects(), find());
    let ids: BTreeSet<_> = defects.iter().map(|defect| defect.id.to_owned()).collect();
    assert_eq!(ids.len(), 54, "K1 to K7, M1 to M4, X1 to X7, B1 to B22, P1 to P11, F1 to F3, each once");
    assert_eq!(defects.len(), ids.len());
    let missing = defects.iter().filter(|defect| defect.reason.is_empty() && !found.contains_key(defect.id));
    let missing: Vec<_> = missing.map(|defect| defect.id).collect();
    assert!(missing.is_empty(), "without a test and without a reason: {missing:?}");
    let unknown: Vec<_> = found.keys().filter(|id| !ids.contains(*id)).collect();
    assert!(unknown.is_empty(), "tests for defects that are not in tests/DEFECTS.md: {unknown:?}");
}

#[test]
fn the_ids_of_defects_stand_behind_their_prefix() {
    let ids = |name| ids_in(name).collect::<Vec<_>>();
    assert_eq!(ids("defect_x3_p5_px9_no_secret_stands_in_a_record"), ["X3", "P5"]);
    assert_eq!(ids("px9_defect_x3_no_secret"), ["X3"]);
    assert!(ids("b9_a_disconnect_at_any_byte").is_empty());
    assert!(ids("a_defect_of_k1").is_empty());
}
