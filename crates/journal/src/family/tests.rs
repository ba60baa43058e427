use super::*;

const FAMILY: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };

#[test]
#[should_panic(expected = "families are numbered from 1")]
fn a_family_without_a_number_is_a_bug() {
    Families::new(&[Family { number: 0, ..FAMILY }]);
}

#[test]
#[should_panic(expected = "names no folder")]
fn a_family_whose_name_could_lead_out_of_its_folder_is_a_bug() {
    Families::new(&[FAMILY, Family { number: 2, name: "../ledger", ..FAMILY }]);
}

#[test]
#[should_panic(expected = "is declared twice")]
fn two_families_of_one_name_are_a_bug() {
    Families::new(&[FAMILY, Family { number: 2, ..FAMILY }]);
}
