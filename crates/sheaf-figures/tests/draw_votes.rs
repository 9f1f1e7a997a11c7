//! Pictures of votes show the agents' votes.

use std::path::Path;

use sheaf_admm::ErrorKind;
use sheaf_figures::draw::maze_terminal::{Depth, Style};
use sheaf_figures::draw::votes::{self, Frame, Scene, class_character, class_colour};
use sheaf_figures::draw::{palette, png};
use sheaf_learn::model::ViewGrid;

/// Four agents on 7 × 7 pixels; no agent sees the last row and column.
fn grid() -> ViewGrid {
    ViewGrid::new(7, 7, 3, 3).unwrap()
}

fn image() -> Vec<u8> {
    (0..49).map(|p| if p % 7 == 3 { 255 } else { 0 }).collect()
}

fn frame() -> Frame {
    Frame { iteration: 1, class: vec![7, 1, 9, 7], sure: vec![1.0, 0.2, 0.8, 0.6] }
}

#[test]
fn plain_text_shows_the_picture_and_every_agents_class_where_it_is_sure() {
    let (grid, image) = (grid(), image());
    assert_eq!(grid.agents(), 4);
    let drawn = votes::text(&Scene::new(&image, &grid, 10), &frame(), Style::Ascii);
    let expected = [
        "   @     777...",
        "   @     777...",
        "   @     777...",
        "   @     999777",
        "   @     999777",
        "   @     999777",
        "   @",
    ];
    assert_eq!(drawn.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn colours_are_the_class_as_bright_as_the_agent_is_sure() {
    let (grid, image) = (grid(), image());
    let scene = Scene::new(&image, &grid, 10);
    let wide = votes::text(&scene, &frame(), Style::Wide(Depth::True));
    let half = votes::text(&scene, &frame(), Style::Half(Depth::True));
    assert_eq!((wide.lines().count(), half.lines().count()), (7, 4));
    let code = |[r, g, b]: palette::Colour| format!("2;{r};{g};{b}m");
    let [sure, unsure] = [(7, 1.0), (1, 0.2)]
        .map(|(class, sure)| code(palette::mix(palette::WALL, class_colour(class, 10), sure)));
    let first = wide.lines().next().unwrap();
    assert!(first.contains(&sure) && first.contains(&unsure), "{first:?}");
    assert!(half.contains(&sure) && half.lines().all(|l| l.ends_with("\x1b[0m")), "{half:?}");
}

#[test]
fn a_picture_and_an_animation_hold_both_panels() {
    let (grid, image, dir) = (grid(), image(), tempfile::tempdir().unwrap());
    let scene = Scene::new(&image, &grid, 10);
    let path = dir.path().join("vote.png");
    votes::write(&path, &scene, &[frame()]).unwrap();
    let read = png::decode(&std::fs::read(&path).unwrap(), "vote.png").unwrap();
    // Cells of 15 pixels, seven on each side of a gap of two.
    assert_eq!((read.height, read.width), (7 * 15, 16 * 15));
    let at = |row: usize, column: usize| {
        let p = 3 * ((row * 15 + 7) * read.width + column * 15 + 7);
        [read.rgb[p], read.rgb[p + 1], read.rgb[p + 2]]
    };
    assert_eq!((at(0, 0), at(0, 3), at(0, 7)), ([0; 3], [255; 3], palette::PAPER));
    assert_eq!(at(1, 10), class_colour(7, 10));
    let path = dir.path().join("vote.gif");
    let later = Frame { iteration: 2, class: vec![7; 4], sure: vec![1.0; 4] };
    votes::write(&path, &scene, &[frame(), later]).unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(b"GIF89a"));
    assert!(votes::moves(&path) && !votes::moves(Path::new("vote.png")));
}

#[test]
fn many_classes_have_colours_and_characters_of_their_own() {
    let colours: std::collections::HashSet<_> = (0..47).map(|c| class_colour(c, 47)).collect();
    assert_eq!(colours.len(), 47);
    let characters: String = (0..62).map(class_character).collect();
    assert!(characters.starts_with("0123456789abc") && characters.ends_with('Z'));
    assert_eq!(class_character(62), '?');
}

#[test]
fn names_that_are_no_pictures_are_refused() {
    let error = votes::check_name(Path::new("vote.svg")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains(".svg"), "{error}");
    votes::check_name(Path::new("vote.GIF")).unwrap();
}
