//! Matrix Market files: `%%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric`.

use sheaf_admm::network::file::MAX_SIZE;
use sheaf_admm::{Error, ErrorKind, Matrix, Result};

/// Reads a file; `place` names it in errors.
pub fn read(bytes: &[u8], place: &str) -> Result<Matrix> {
    let text = std::str::from_utf8(bytes).map_err(|_| wrong(place, 1, "text", "other bytes"))?;
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    let header = lines.next().map_or(String::new(), |(_, line)| line.to_ascii_lowercase());
    let words: Vec<&str> = header.split_whitespace().collect();
    let [
        "%%matrixmarket",
        "matrix",
        layout @ ("coordinate" | "array"),
        field @ ("real" | "integer" | "pattern"),
        shape,
    ] = words[..]
    else {
        return Err(wrong(place, 1, "a header `%%MatrixMarket matrix coordinate real general`", &header));
    };
    let mirror = match shape {
        "general" => None,
        "symmetric" => Some(1.0),
        "skew-symmetric" => Some(-1.0),
        other => return Err(wrong(place, 1, "general, symmetric or skew-symmetric", other)),
    };
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('%'));
    let (at, sizes) =
        lines.next().ok_or_else(|| wrong(place, 2, "the sizes of the matrix", "the end of the file"))?;
    let sizes = numbers(sizes).ok_or_else(|| wrong(place, at, "sizes", sizes))?;
    match (layout, &sizes[..]) {
        ("coordinate", &[rows, cols, count]) => {
            let (rows, cols) = (size(place, at, rows)?, size(place, at, cols)?);
            // The count is only a promise: memory grows with the lines that are there.
            let (mut entries, mut stored) = (Vec::new(), 0usize);
            for (at, line) in lines {
                stored += 1;
                let parts = numbers(line).ok_or_else(|| wrong(place, at, "row, column and value", line))?;
                let (row, col, value) = match (field, &parts[..]) {
                    ("pattern", &[row, col]) => (row, col, 1.0),
                    ("real" | "integer", &[row, col, value]) => (row, col, value),
                    _ => return Err(wrong(place, at, "row, column and value", line)),
                };
                let inside = |v: f64, n: usize| v >= 1.0 && v <= n as f64 && v.fract() == 0.0;
                if !inside(row, rows) || !inside(col, cols) {
                    return Err(wrong(place, at, &format!("a place inside {rows} × {cols}, from 1"), line));
                }
                let (row, col) = (row as usize - 1, col as usize - 1);
                // Of a symmetric matrix the other half is implied; with both halves the entries would count twice.
                let half = match mirror {
                    None => true,
                    Some(sign) => col < row || (col == row && sign > 0.0),
                };
                if !half {
                    return Err(wrong(
                        place,
                        at,
                        &format!("an entry of the lower half, as {shape} says"),
                        line,
                    ));
                }
                entries.push((row, col, value));
                if let (Some(sign), true) = (mirror, row != col) {
                    entries.push((col, row, sign * value));
                }
            }
            if stored as f64 != count {
                return Err(wrong(place, at, &format!("{count} entries"), &stored.to_string()));
            }
            Ok(Matrix::sparse(rows, cols, entries))
        }
        ("array", &[rows, cols]) if field != "pattern" => {
            let (rows, cols) = (size(place, at, rows)?, size(place, at, cols)?);
            if mirror.is_some() && rows != cols {
                return Err(wrong(
                    place,
                    at,
                    &format!("a square matrix, as {shape} says"),
                    &format!("{sizes:?}"),
                ));
            }
            let mut columns = Vec::new();
            for (at, line) in lines {
                columns.extend(numbers(line).ok_or_else(|| wrong(place, at, "numbers", line))?);
            }
            array(rows, cols, mirror, &columns).ok_or_else(|| {
                let expected = format!("the numbers of a {shape} {rows} × {cols} matrix");
                wrong(place, at, &expected, &columns.len().to_string())
            })
        }
        _ => Err(wrong(place, at, "sizes as the header says", &format!("{sizes:?}"))),
    }
}

/// A matrix from its columns, of which symmetric ones hold the lower half (without the diagonal if it is 0); `None` if
/// there are more or fewer numbers.
fn array(rows: usize, cols: usize, mirror: Option<f64>, columns: &[f64]) -> Option<Matrix> {
    let half =
        |skip: usize| rows.checked_add(1).and_then(|n| rows.checked_mul(n)).map(|n| n / 2 - skip * rows);
    let first = usize::from(mirror == Some(-1.0));
    let count = if mirror.is_some() { half(first) } else { rows.checked_mul(cols) };
    if count != Some(columns.len()) {
        return None;
    }
    let mut values = vec![0.0; rows.checked_mul(cols)?];
    let mut next = columns.iter();
    for col in 0..cols {
        let from = if mirror.is_some() { col + first } else { 0 };
        for row in from..rows {
            let value = *next.next()?;
            if let Some(sign) = mirror {
                values[col * cols + row] = sign * value;
            }
            values[row * cols + col] = value;
        }
    }
    Some(Matrix::dense(rows, cols, values))
}

fn numbers(line: &str) -> Option<Vec<f64>> {
    line.split_whitespace().map(|word| word.parse().ok().filter(|v: &f64| v.is_finite())).collect()
}

fn size(place: &str, line: usize, n: f64) -> Result<usize> {
    if n >= 0.0 && n <= MAX_SIZE as f64 && n.fract() == 0.0 {
        return Ok(n as usize);
    }
    Err(wrong(place, line, &format!("a size of at most {MAX_SIZE}"), &n.to_string()))
}

fn wrong(place: &str, line: usize, expected: &str, got: &str) -> Error {
    let got: String = got.chars().take(80).collect();
    Error::new(ErrorKind::Malformed, format!("{place}:{line}"), expected, got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinate_and_array_files_are_read() {
        let sparse =
            b"%%MatrixMarket matrix coordinate real symmetric\n% a comment\n2 2 2\n1 1 3.5\n2 1 -1\n";
        assert_eq!(read(sparse, "m").unwrap().to_dense(), [3.5, -1.0, -1.0, 0.0]);
        let dense = b"%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n";
        assert_eq!(read(dense, "m").unwrap().to_dense(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
        // What scipy.io.mmwrite makes of a symmetric array.
        let half = b"%%MatrixMarket matrix array real symmetric\n%\n3 3\n1\n2\n3\n4\n5\n6\n";
        assert_eq!(read(half, "m").unwrap().to_dense(), [1.0, 2.0, 3.0, 2.0, 4.0, 5.0, 3.0, 5.0, 6.0]);
        let skew = b"%%MatrixMarket matrix array integer skew-symmetric\n3 3\n1\n2\n3\n";
        assert_eq!(read(skew, "m").unwrap().to_dense(), [0.0, -1.0, -2.0, 1.0, 0.0, -3.0, 2.0, 3.0, 0.0]);
    }

    #[test]
    fn damaged_files_are_errors_with_a_line() {
        for (text, line) in [
            ("", "m:1"),
            ("%%MatrixMarket matrix coordinate real general\n", "m:2"),
            ("%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n", "m:3"),
            ("%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1\n", "m:3"),
            ("%%MatrixMarket matrix coordinate real general\n2 2 5\n1 1 1\n", "m:2"),
            ("%%MatrixMarket matrix array real general\n99999999 99999999\n1\n", "m:2"),
            ("%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 1\n2 1 1\n", "m:2"),
            ("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 1\n", "m:3"),
            ("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n", "m:3"),
            ("%%MatrixMarket matrix coordinate real general\n2 2 1.5\n1 1 1\n", "m:2"),
            ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 nan\n", "m:3"),
            ("%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n2\n3\n", "m:2"),
            ("%%MatrixMarket matrix array real symmetric\n2 3\n1\n2\n3\n", "m:2"),
            ("%%MatrixMarket matrix array real skew-symmetric\n0 0\n1\n", "m:2"),
            ("%%MatrixMarket matrix array complex general\n1 1\n1 1\n", "m:1"),
        ] {
            let error = read(text.as_bytes(), "m").unwrap_err();
            assert!(error.place() == line, "{text}: {error}");
        }
    }
}
