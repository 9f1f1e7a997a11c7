//! A Sudoku board as a panel of a figure: givens bold, violated cells red, cells that changed shaded.

use sheaf_admm::Result;
use sheaf_tasks::sudoku::{BLANK, Grid};

use crate::colour::{self, BLUE, Colour, FAINT, INK, PAPER, VERMILLION};
use crate::draw::sudoku::{Mark, marks};
use crate::sheet::{Anchor, Sheet, style};

/// The shade of a cell that changed since the panel before.
pub fn changed() -> Colour {
    colour::mix(PAPER, BLUE, 0.25)
}

/// The shade of a cell that breaks a rule.
pub fn violated() -> Colour {
    colour::mix(PAPER, VERMILLION, 0.35)
}

/// Draws a board of `side` pixels.
pub fn panel(
    sheet: &Sheet<'_>,
    (x, y, side): (f64, f64, f64),
    givens: &Grid,
    board: &Grid,
    before: Option<&Grid>,
) -> Result<()> {
    let cell = side / 9.0;
    let at = |line: usize| cell * line as f64;
    for (k, mark) in marks(givens, board).into_iter().enumerate() {
        let shade = match mark {
            Mark::Violated => violated(),
            _ if before.is_some_and(|before| before[k] != board[k]) => changed(),
            _ => continue,
        };
        sheet.rect(x + at(k % 9), y + at(k / 9), cell, cell, shade)?;
    }
    for line in 1..9 {
        let (colour, width) = if line % 3 == 0 { (INK, 1.0) } else { (FAINT, 0.4) };
        sheet.line(&[(x + at(line), y), (x + at(line), y + side)], colour, width)?;
        sheet.line(&[(x, y + at(line)), (x + side, y + at(line))], colour, width)?;
    }
    sheet.frame(x, y, side, side, INK, 1.0)?;
    let size = 0.58 * cell;
    for (k, &digit) in board.iter().enumerate().filter(|&(_, &digit)| digit != BLANK) {
        let given = givens[k] == digit; // a given that is predicted wrongly is a prediction
        let style = style(size, if given { INK } else { BLUE }, given);
        let (x, y) = (x + at(k % 9) + 0.5 * cell, y + at(k / 9) + 0.5 * cell);
        sheet.styled(x, y, &style, Anchor::Middle, &digit.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::figure;

    #[test]
    fn a_given_that_is_predicted_wrongly_is_drawn_as_a_prediction() {
        let drawn = |digit: u8| {
            let (mut givens, mut board) = ([BLANK; 81], [BLANK; 81]);
            (givens[0], board[0]) = (5, digit);
            figure(90.0, 90.0, |sheet| panel(sheet, (0.0, 0.0, 90.0), &givens, &board, None)).unwrap()
        };
        assert!(drawn(5).svg().contains("bold") && !drawn(9).svg().contains("bold"));
    }
}
