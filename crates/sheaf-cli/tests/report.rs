//! Reports as text and as JSON.

use serde_json::Value;
use sheaf_cli::report::{Report, count, duration, percent, rounded, significant, sparkline};

#[test]
fn people_and_programs_are_told_the_same() {
    let mut report = Report::new();
    report.above("a drawing\n").add("solved", "solved", 0.5, "50 %").line("", "of two");
    report.value("agents", 81);
    assert_eq!(report.text(), "a drawing\nsolved  50 %\n        of two\n");
    assert_eq!(report.json().unwrap(), "{\n  \"solved\": 0.5,\n  \"agents\": 81\n}\n");
}

#[test]
fn numbers_are_written_as_people_read_them() {
    assert_eq!(
        [count(0), count(9999), count(31_250), count(1_234_567)],
        ["0", "9999", "31,250", "1,234,567"]
    );
    assert_eq!(
        [0.012_345, 1.0, 45.67, 1042.3, 12345.6].map(significant),
        ["0.0123", "1.00", "45.7", "1042", "12,346"]
    );
    assert_eq!(
        [0.0052, 1.25, 59.0, 61.0, 7322.0].map(duration),
        ["5.20 ms", "1.2 s", "59 s", "1 min 01 s", "2 h 02 min"]
    );
    assert_eq!(percent(999, 1000), "99.90 % (999 of 1000)");
}

#[test]
fn a_number_that_is_none_becomes_null() {
    assert_eq!(rounded(f64::NAN, 3), Value::Null);
    assert_eq!(rounded(0.123_456, 3), Value::from(0.123));
}

#[test]
fn a_curve_falls_from_left_to_right_and_survives_lost_numbers() {
    assert_eq!(sparkline(&[1.0, 0.1, 0.01, 0.001, 0.0], 8), "█▆▃▁▁");
    assert_eq!(sparkline(&[f32::NAN, 1.0], 8), "?█");
    assert_eq!(sparkline(&[], 8), "");
    assert_eq!(sparkline(&[1.0; 100], 8).chars().count(), 8);
}
