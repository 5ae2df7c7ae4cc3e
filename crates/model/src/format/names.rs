//! Suggestions for misspelled names.

/// Minimum rating of a known name to be suggested. The rating is the similarity of the misspelled
/// and the known name, plus [`SHARED_NUMBER`] if they share a number. The similarity is 1 minus the
/// number of edits (insertions, deletions, substitutions and transpositions of characters) divided
/// by the length of the longer name. Names with a lower rating are mostly unrelated.
const LEAST: f64 = 0.6;

/// Added to the similarity of names that share a number, such as a speed grade: a user who writes
/// `ddr5-6400` more probably means `rdimm-6400-2r` than `ddr3-1600`.
const SHARED_NUMBER: f64 = 0.5;

/// Minimum number of digits of a number that counts as shared.
const NUMBER: usize = 3;

/// Minimum number of characters that a misspelled name must have to be compared with the beginnings
/// of the known names.
const BEGINNING: usize = 3;

/// Returns the known name that is most similar to `wrong`. If none is similar enough and `wrong`
/// has at least three characters, returns the first known name that begins with `wrong`. Otherwise
/// returns `None`. The case of letters does not count.
fn similar<'a>(wrong: &str, known: &'a [impl AsRef<str>]) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let wrong = wrong.as_str();
    let known = || known.iter().map(AsRef::as_ref);
    let rate = |name: &'a str| {
        let name = name.to_lowercase();
        let shared = numbers(wrong).any(|number| numbers(&name).any(|other| other == number));
        let edits = strsim::normalized_damerau_levenshtein(wrong, &name);
        edits + if shared { SHARED_NUMBER } else { 0.0 }
    };
    let rated = known().map(|name| (rate(name), name));
    let best = rated.filter(|(similarity, _)| *similarity >= LEAST);
    let best = best.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name);
    let is_beginning = wrong.chars().count() >= BEGINNING;
    best.or_else(|| known().find(|name| is_beginning && name.to_lowercase().starts_with(wrong)))
}

/// Returns the parts of `name` that are numbers of at least [`NUMBER`] digits.
fn numbers(name: &str) -> impl Iterator<Item = &str> {
    let is_number =
        |part: &&str| part.len() >= NUMBER && part.bytes().all(|it| it.is_ascii_digit());
    name.split(['-', '_']).filter(is_number)
}

/// Returns the beginning of a hint: a question with the known name that is most similar to `wrong`.
/// The text is empty if no name is similar.
pub fn suggestion(wrong: &str, known: &[impl AsRef<str>]) -> String {
    similar(wrong, known).map_or_else(String::new, |name| format!("did you mean {name}? "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_has_a_suggestion_and_another_name_none() {
        let known = ["hpcg", "openfoam", "xeon6-cz122", "xeon6-rdimm-6400", "lbm"];
        for (wrong, right) in [
            ("hpgc", Some("hpcg")),
            ("open-foam", Some("openfoam")),
            ("xeon6-cz12", Some("xeon6-cz122")),
            ("xeon6-rdim-6400", Some("xeon6-rdimm-6400")),
            ("xeon6", Some("xeon6-cz122")),
            ("x", None),
            ("LBM", Some("lbm")),
            ("", None),
            ("quantum", None),
            ("ddr5-6400", Some("xeon6-rdimm-6400")),
        ] {
            assert_eq!(similar(wrong, &known), right, "{wrong}");
        }
        assert_eq!(suggestion("hpgc", &known), "did you mean hpcg? ");
        assert_eq!(suggestion("quantum", &known), "");
    }
}
