//! Wrong input is refused with exit status 2, and with the position, the reason and the remedy;
//! never with a panic. Each case is wrong in one way. `TRYCMD=overwrite` records new expectations.

#[test]
fn bad_input() {
    trycmd::TestCases::new().case("tests/bad-input/*.trycmd");
}
