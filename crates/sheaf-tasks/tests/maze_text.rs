//! Typed and painted mazes.

use sheaf_admm::ErrorKind;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::image::from_pixels;
use sheaf_tasks::maze::text::{MazeInput, Note, parse};

const SMALL: &str = "#####\n#S  #\n###.#\n#G..#\n#####\n";

fn read(text: &str) -> MazeInput {
    parse(text, "maze.txt").unwrap()
}

fn refuse(text: &str) -> (ErrorKind, String) {
    let error = parse(text, "maze.txt").unwrap_err();
    assert!(error.place().starts_with("maze.txt"));
    (error.kind(), error.to_string())
}

#[test]
fn a_small_maze_is_read_and_solved_without_notes() {
    let maze = read(SMALL);
    assert_eq!((maze.height, maze.width, maze.steps), (5, 5, 6));
    assert_eq!(maze.tokens[5..10], [1, 3, 2, 2, 1]);
    assert_eq!(maze.label[5..10], [1, 3, 5, 5, 1]);
    assert_eq!(maze.notes, []);
}

#[test]
fn drawn_mazes_read_back_the_same() {
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 3, 20).unwrap();
    for i in 0..set.len() {
        for tokens in [set.input(i), set.label(i)] {
            let text: Vec<String> = tokens
                .chunks(19)
                .map(|r| r.iter().map(|&t| b"_# SG*"[t as usize] as char).collect::<String>())
                .collect();
            let maze = read(&text.join("\r\n"));
            assert_eq!((&maze.tokens[..], &maze.label[..]), (set.input(i), set.label(i)));
            assert_eq!(maze.notes, []);
        }
    }
}

#[test]
fn blank_lines_around_and_common_indentation_are_dropped() {
    let indented: String = SMALL.lines().map(|l| format!("    {l}\n")).collect();
    assert_eq!(read(&format!("\n\n{indented}\n  \n")), read(SMALL));
    assert_eq!(read(&SMALL.replace('#', "█")), read(SMALL));
}

#[test]
fn short_lines_are_filled_up_and_noted() {
    let maze = read("#######\n#S    #\n##### #\n#G\n#######");
    assert_eq!(maze.notes[0], Note::ShortLines { first: 4, count: 1 });
    assert!(maze.notes.contains(&Note::OpenBorder(1)));
    assert_eq!(maze.tokens[3 * 7 + 2..][..5], [2; 5]);
}

#[test]
fn mistakes_are_named_with_their_place() {
    let (kind, said) = refuse("#####\n#S  #\n###?#\n#G  #\n#####");
    assert_eq!(kind, ErrorKind::Malformed);
    assert!(said.contains("maze.txt, line 3, column 4") && said.contains("'?'"), "{said}");
    let (_, said) = refuse("  #####\n  #S\t #\n  #####");
    assert!(said.contains("line 2, column 5"), "{said}");
}

#[test]
fn what_cannot_be_solved_is_refused_with_a_hint() {
    let cases = [
        ("", ErrorKind::Malformed, "no text"),
        ("  \n\n", ErrorKind::Malformed, "no text"),
        ("#####\n#.. #\n###.#\n#G..#\n#####", ErrorKind::Malformed, "one start, got none"),
        ("#####\n#S. #\n###.#\n#...#\n#####", ErrorKind::Malformed, "one goal, got none"),
        ("#####\n#SG #\n###.#\n#G.G#\n#####", ErrorKind::Malformed, "3: row 2, column 3; row 4, column 2"),
        ("####\n#S #\n#G #\n####", ErrorKind::Shape, "4 rows and 4 columns"),
        ("#####\n#S G#\n#####\n#####", ErrorKind::Shape, "4 rows and 5 columns"),
        ("SG.", ErrorKind::Shape, "1 rows and 3 columns"),
        ("#####\n#S  #\n#####\n#G  #\n#####", ErrorKind::Infeasible, "walls between them"),
    ];
    for (text, expected, said) in cases {
        let (kind, message) = refuse(text);
        assert_eq!(kind, expected, "{message}");
        assert!(message.contains(said) && message.contains("hint: "), "{message}");
    }
}

#[test]
fn unusual_mazes_are_read_with_notes() {
    assert_eq!(read("#####\n#S  #\n# # #\n#  G#\n#####").notes, [Note::Loops(1)]);
    assert_eq!(read("#####\n#S G#\n#####\n# # #\n#####").notes, [Note::Pieces(3)]);
    assert_eq!(read("#####\nS   #\n### #\n#   G\n#####").notes, [Note::OpenBorder(2)]);
    assert_eq!(
        read("#####\n#S ##\n##  #\n###G#\n#####").notes,
        [Note::OffLattice(3)],
        "one cell is open at an even place and two at odd places are walls"
    );
    let set = generate(&MazeShape::new(19, 37, 35).unwrap(), 3, 1).unwrap();
    let text: Vec<String> = set
        .input(0)
        .chunks(37)
        .map(|r| r.iter().map(|&t| b"_#.SG"[t as usize] as char).collect::<String>())
        .collect();
    assert_eq!(read(&text.join("\n")).notes, [Note::Large { height: 19, width: 37 }]);
}

#[test]
fn notes_read_as_sentences() {
    assert_eq!(Note::Loops(1).to_string(), "not a perfect maze: 1 loop, so other paths may exist");
    assert_eq!(Note::OpenBorder(2).to_string(), "2 open pixels on the border; agents see walls beyond it");
}

/// The maze painted with cells of `size` pixels.
fn paint(maze: &MazeInput, size: usize, colours: &[[u8; 3]; 6]) -> Vec<u8> {
    let mut rgb = Vec::new();
    for y in 0..maze.height * size {
        for x in 0..maze.width * size {
            rgb.extend(colours[maze.label[y / size * maze.width + x / size] as usize]);
        }
    }
    rgb
}

const COLOURS: [[u8; 3]; 6] =
    [[0; 3], [20, 20, 40], [250, 245, 240], [40, 160, 60], [220, 50, 50], [120, 160, 240]];

#[test]
fn painted_mazes_are_read_at_any_cell_size() {
    let maze = read(SMALL);
    for size in [1, 2, 7, 12] {
        let rgb = paint(&maze, size, &COLOURS);
        assert_eq!(from_pixels(&rgb, 5 * size, 5 * size, "maze.png").unwrap(), maze);
    }
}

#[test]
fn a_picture_that_is_no_maze_says_how_it_was_understood() {
    let maze = read(SMALL);
    let mut colours = COLOURS;
    colours[3] = [255; 3];
    let error = from_pixels(&paint(&maze, 4, &colours), 20, 20, "maze.png").unwrap_err();
    assert!(error.place().contains("cells of 4") && error.expected() == "one start", "{error}");
    assert!(error.hint_text().unwrap().contains("green"));
    assert_eq!(from_pixels(&[], 0, 0, "x").unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(from_pixels(&[0; 5], 1, 2, "x").unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(from_pixels(&[0; 300], 10, 10, "x").unwrap_err().kind(), ErrorKind::Shape);
}

#[test]
fn colours_of_a_path_are_open() {
    let maze = read(SMALL);
    for path in [[52, 120, 246], [160, 70, 220], [245, 140, 20], [255, 255, 0], [0, 0, 255], [128; 3]] {
        let mut colours = COLOURS;
        colours[5] = path;
        assert_eq!(from_pixels(&paint(&maze, 3, &colours), 15, 15, "maze.png").unwrap(), maze, "{path:?}");
    }
}
