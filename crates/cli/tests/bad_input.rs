//! Wrong input is refused with the place, the reason and the way to mend it: exit status 2, never
//! a panic. Each case is wrong in one way; `TRYCMD=overwrite` writes the expectations anew.

#[test]
fn bad_input() {
    trycmd::TestCases::new().case("tests/bad-input/*.trycmd");
}
