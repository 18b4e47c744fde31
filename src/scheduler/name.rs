//! The text form of a part: `name` or `name(number)`.

/// Splits `softmax(0.2)` into its name and number; `None` when the text has another form or the number is not finite.
pub(crate) fn split(text: &str) -> Option<(&str, Option<f64>)> {
    let Some((name, rest)) = text.split_once('(') else { return Some((text, None)) };
    let number: f64 = rest.strip_suffix(')')?.trim().parse().ok()?;
    number.is_finite().then_some((name.trim_end(), Some(number)))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn names_and_numbers_are_told_apart() {
        for (text, expected) in [
            ("p2c", Some(("p2c", None))),
            ("softmax(0.2)", Some(("softmax", Some(0.2)))),
            ("load( 30 )", Some(("load", Some(30.0)))),
            ("load()", None),
            ("load(30", None),
            ("load(30)x", None),
            ("load(nan)", None),
            ("load(inf)", None),
            ("load((30))", None),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }
}
