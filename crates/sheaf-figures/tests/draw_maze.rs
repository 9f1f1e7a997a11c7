//! Pictures of mazes show what is in the arrays.

use std::path::Path;

use sheaf_admm::ErrorKind;
use sheaf_figures::draw::gif::Timing;
use sheaf_figures::draw::maze_terminal::{self, Depth, Style};
use sheaf_figures::draw::{Frame, Scene, agents_to_pixels, canvas, export, gif, palette, png, svg};
use sheaf_learn::model::ViewGrid;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, generate};
use sheaf_tasks::maze::image::from_pixels;
use sheaf_tasks::maze::text;
use sheaf_tasks::maze::{PATH, WALL};

/// A maze with a loop; its prediction misses one cell, adds one and is uncertain at two.
const TEXT: &str = "#######\n#S    #\n# ### #\n# #G  #\n# ### #\n#     #\n#######";

struct Example {
    tokens: Vec<u8>,
    label: Vec<u8>,
    probability: Vec<f32>,
}

fn example() -> Example {
    let maze = text::parse(TEXT, "example").unwrap();
    let mut probability: Vec<f32> = maze.label.iter().map(|&t| if t == PATH { 0.9 } else { 0.02 }).collect();
    probability[9] = 0.4; // missed, on the way from S
    probability[15] = 0.6; // extra, below S
    probability[22] = 0.35;
    probability[29] = 0.2;
    Example { tokens: maze.tokens, label: maze.label, probability }
}

impl Example {
    fn scene(&self) -> Scene<'_> {
        Scene::new(&self.tokens, 7, 7, Some(&self.label)).unwrap()
    }

    fn frame(&self) -> Frame<'_> {
        Frame { probability: &self.probability, predicted: None, heat: None }
    }
}

/// Generated mazes with the correct path.
fn solved(height: usize, width: usize) -> (MazeSet, Vec<f32>) {
    let set = generate(&MazeShape::new(height, width, height).unwrap(), 5, 1).unwrap();
    let probability = set.labels.iter().map(|&t| if t == PATH { 0.97 } else { 0.01 }).collect();
    (set, probability)
}

#[test]
fn plain_text_shows_probabilities_and_mistakes() {
    let example = example();
    let drawn = maze_terminal::render(&example.scene(), &example.frame(), Style::Ascii).unwrap();
    let expected = "\
#######
#So***#
#x###*#
#:#G**#
#.### #
#     #
#######
";
    assert_eq!(drawn, expected);
}

#[test]
fn plain_text_is_read_again_as_the_same_maze() {
    let example = example();
    let drawn = maze_terminal::render(&example.scene(), &example.frame(), Style::Ascii).unwrap();
    assert_eq!(text::parse(&drawn, "drawn").unwrap().tokens, example.tokens);
}

#[test]
fn the_prediction_decides_where_it_is_given() {
    let example = example();
    let frame = Frame { predicted: Some(&example.label), ..example.frame() };
    let drawn = maze_terminal::render(&example.scene(), &frame, Style::Ascii).unwrap();
    assert!(!drawn.contains(['x', 'o']), "{drawn}");
    let unknown = Scene::new(&example.tokens, 7, 7, None).unwrap();
    assert!(!maze_terminal::render(&unknown, &example.frame(), Style::Ascii).unwrap().contains(['x', 'o']));
}

#[test]
fn colours_need_a_terminal_and_no_objection() {
    use Style::{Ascii, Half, Wide};
    assert_eq!(Style::choose(19, false, false, "truecolor", 80), Ascii);
    assert_eq!(Style::choose(19, true, true, "truecolor", 80), Ascii);
    assert_eq!(Style::choose(19, true, false, "truecolor", 80), Wide(Depth::True));
    assert_eq!(Style::choose(19, true, false, "", 80), Wide(Depth::Xterm));
    assert_eq!(Style::choose(73, true, false, "24bit", 80), Half(Depth::True));
}

/// Text without colour codes.
fn visible(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('\x1b');
    out.push_str(parts.next().unwrap());
    parts.for_each(|p| out.push_str(p.split_once('m').unwrap().1));
    out
}

#[test]
fn coloured_lines_have_the_width_of_the_maze_and_end_without_colour() {
    let example = example();
    let scene = example.scene();
    for (style, width) in [(Style::Wide(Depth::True), 14), (Style::Half(Depth::Xterm), 7)] {
        let drawn = maze_terminal::render(&scene, &example.frame(), style).unwrap();
        assert_eq!(drawn.lines().count(), style.lines(7));
        for line in drawn.lines() {
            assert!(line.ends_with("\x1b[0m"));
            assert_eq!(visible(line).chars().count(), width);
        }
    }
    let wide = maze_terminal::render(&scene, &example.frame(), Style::Wide(Depth::True)).unwrap();
    assert_eq!(visible(wide.lines().nth(1).unwrap()), "  S ··        ");
    assert!(wide.contains(&format!("48;2;{};{};{}m", palette::WALL[0], palette::WALL[1], palette::WALL[2])));
    let narrow = maze_terminal::render(&scene, &example.frame(), Style::Half(Depth::Xterm)).unwrap();
    assert!(!narrow.contains("48;2") && narrow.contains("48;5"));
    assert_eq!(maze_terminal::rewind(4), "\x1b[4A\r");
}

#[test]
fn svg_draws_walls_as_runs_and_the_path_by_opacity() {
    let maze = text::parse("###\n#S#\n#.#\n#G#\n###", "small").unwrap();
    let scene = Scene::new(&maze.tokens, 5, 3, None).unwrap();
    let mut probability = vec![0.0; 15];
    probability[7] = 0.75;
    let frame = Frame { probability: &probability, predicted: None, heat: None };
    let expected = "\
<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 3 5\" shape-rendering=\"crispEdges\">
<rect width=\"3\" height=\"5\" fill=\"#f7f4ed\"/>
<path id=\"walls\" fill=\"#202434\" d=\"M0 0h3v1h-3zM0 1h1v1h-1zM2 1h1v1h-1zM0 2h1v1h-1zM2 2h1v1h-1zM0 3h1v1h-1zM2 3h1v1h-1zM0 4h3v1h-3z\"/>
<rect x=\"1\" y=\"1\" width=\"1\" height=\"1\" fill=\"#26a65b\"/>
<rect x=\"1\" y=\"2\" width=\"1\" height=\"1\" fill=\"#3478f6\" fill-opacity=\"0.75\"/>
<rect x=\"1\" y=\"3\" width=\"1\" height=\"1\" fill=\"#e23a3e\"/>
</svg>
";
    assert_eq!(svg::render(&scene, &[frame], 1.0).unwrap(), expected);
    let zero = vec![0.0; 15];
    let before = Frame { probability: &zero, ..frame };
    let moving = svg::render(&scene, &[before, frame], 2.0).unwrap();
    assert!(moving.contains("values=\"0;0.75\" dur=\"2s\""), "{moving}");
}

#[test]
fn svg_marks_mistakes_and_adds_heat() {
    let example = example();
    let heat: Vec<f32> = (0..49).map(|i| i as f32).collect();
    let frame = Frame { heat: Some(&heat), ..example.frame() };
    let drawn = svg::render(&example.scene(), &[frame], 1.0).unwrap();
    assert_eq!(drawn.matches("<circle").count(), 1);
    assert!(drawn.contains("viewBox=\"0 0 16 7\"") && drawn.contains("#a046dc"));
    assert!(drawn.contains("<g id=\"heat\" transform=\"translate(9 0)\">"));
}

#[test]
fn a_png_decodes_to_the_colours_of_the_cells() {
    let example = example();
    let bytes = png::render(&example.scene(), &example.frame(), 6).unwrap();
    let image = png::decode(&bytes, "drawn.png").unwrap();
    assert_eq!((image.height, image.width), (42, 42));
    let pixel =
        |row: usize, column: usize| <[u8; 3]>::try_from(&image.rgb[(row * 42 + column) * 3..][..3]).unwrap();
    assert_eq!(pixel(0, 0), palette::WALL);
    assert_eq!(pixel(6, 6), palette::START);
    assert_eq!(pixel(23, 23), palette::GOAL);
    // Row 1, column 2 is missed: shaded around, marked in the middle.
    assert_eq!(pixel(8, 14), palette::MISSED);
    let shade = palette::mix(palette::OPEN, palette::PATH, 0.4);
    assert!(pixel(6, 12).iter().zip(shade).all(|(&a, b)| a.abs_diff(b) <= 2));
}

#[test]
fn a_picture_of_a_solved_maze_is_read_again_as_that_maze() {
    for (height, width) in [(19, 19), (19, 37), (73, 73)] {
        let (set, probability) = solved(height, width);
        let scene = Scene::new(set.input(0), height, width, Some(set.label(0))).unwrap();
        let frame = Frame { probability: &probability, predicted: None, heat: None };
        let bytes = png::render(&scene, &frame, canvas::default_cell(&scene)).unwrap();
        let image = png::decode(&bytes, "drawn.png").unwrap();
        let maze = from_pixels(&image.rgb, image.height, image.width, "drawn.png").unwrap();
        assert_eq!((&maze.tokens[..], &maze.label[..]), (set.input(0), set.label(0)));
    }
}

#[test]
fn a_picture_with_mistakes_is_read_again_too() {
    let example = example();
    let bytes = png::render(&example.scene(), &example.frame(), 9).unwrap();
    let image = png::decode(&bytes, "drawn.png").unwrap();
    let maze = from_pixels(&image.rgb, image.height, image.width, "drawn.png").unwrap();
    assert_eq!(maze.tokens, example.tokens);
}

#[test]
fn transparent_and_grey_images_are_read() {
    let image = |colour, data: &[u8]| {
        let mut bytes = Vec::new();
        let mut encoder = ::png::Encoder::new(&mut bytes, 2, 1);
        encoder.set_color(colour);
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        png::decode(&bytes, "x").unwrap().rgb
    };
    assert_eq!(image(::png::ColorType::Grayscale, &[7, 200]), [7, 7, 7, 200, 200, 200]);
    assert_eq!(image(::png::ColorType::GrayscaleAlpha, &[7, 255, 0, 0]), [7, 7, 7, 255, 255, 255]);
    assert_eq!(image(::png::ColorType::Rgba, &[1, 2, 3, 255, 0, 0, 0, 51]), [1, 2, 3, 204, 204, 204]);
    for foreign in [&b"GIF89a"[..], b"", &[0x89, b'P', b'N', b'G']] {
        assert_eq!(png::decode(foreign, "x").unwrap_err().kind(), ErrorKind::Malformed);
    }
}

#[test]
fn a_gif_plays_every_frame_and_judges_the_last() {
    let (set, mut last) = solved(19, 19);
    let wrong = set.labels.iter().position(|&t| t == PATH).unwrap();
    last[wrong] = 0.2;
    let unjudged = Scene::new(set.input(0), 19, 19, None).unwrap();
    let scene = Scene::new(set.input(0), 19, 19, Some(set.label(0))).unwrap();
    let steps: Vec<Vec<f32>> =
        [0.0, 0.1, 0.1, 0.7, 1.0].iter().map(|s| last.iter().map(|p| p * s).collect()).collect();
    let frames: Vec<Frame> =
        steps.iter().map(|p| Frame { probability: p, predicted: None, heat: Some(p) }).collect();
    let bytes = gif::render(&scene, &frames, 4, Timing { step: 10, hold: 150 }).unwrap();

    let mut options = ::gif::DecodeOptions::new();
    options.set_color_output(::gif::ColorOutput::Indexed);
    let mut decoder = options.read_info(&bytes[..]).unwrap();
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    let mut shown = vec![0; width * height];
    for (i, frame) in frames.iter().enumerate() {
        let part = decoder.read_next_frame().unwrap().unwrap();
        assert_eq!(part.delay, if i == 4 { 150 } else { 10 });
        let (w, left) = (usize::from(part.width), usize::from(part.left));
        for (row, pixels) in part.buffer.chunks(w).enumerate() {
            shown[(usize::from(part.top) + row) * width + left..][..w].copy_from_slice(pixels);
        }
        let scene = if i == 4 { &scene } else { &unjudged };
        let whole = canvas::draw(scene, frame, 4, Some((i + 1) as f32 / 5.0)).unwrap();
        assert_eq!((whole.width, whole.height), (width, height));
        assert!(shown == whole.pixels, "frame {i}");
    }
    assert!(decoder.read_next_frame().unwrap().is_none());
}

#[test]
fn arrays_of_the_wrong_size_are_refused() {
    let example = example();
    let short = vec![0.0; 48];
    let bad = [
        Frame { probability: &short, ..example.frame() },
        Frame { heat: Some(&short), ..example.frame() },
        Frame { predicted: Some(&[1; 3]), ..example.frame() },
    ];
    let scene = example.scene();
    for frame in bad {
        assert_eq!(png::render(&scene, &frame, 4).unwrap_err().kind(), ErrorKind::Shape);
        assert!(maze_terminal::render(&scene, &frame, Style::Ascii).is_err());
        assert!(svg::render(&scene, &[frame], 1.0).is_err());
        assert!(gif::render(&scene, &[example.frame(), frame], 4, Timing::for_frames(2)).is_err());
    }
    assert!(png::render(&scene, &example.frame(), 0).is_err());
    assert!(png::render(&scene, &example.frame(), 10_000).is_err());
    assert!(gif::render(&scene, &[], 4, Timing::for_frames(0)).is_err());
    assert!(Scene::new(&example.tokens, 7, 6, None).is_err());
    assert!(Scene::new(&[], 0, 0, None).is_err());
}

#[test]
fn numbers_that_are_none_are_drawn_as_no_path() {
    let example = example();
    let nothing = vec![f32::NAN; 49];
    let frame = Frame { probability: &nothing, predicted: None, heat: Some(&nothing) };
    let unknown = Scene::new(&example.tokens, 7, 7, None).unwrap();
    assert!(!maze_terminal::render(&unknown, &frame, Style::Ascii).unwrap().contains('*'));
    assert!(png::render(&unknown, &frame, 3).is_ok());
}

#[test]
fn agents_spread_their_numbers_over_what_they_see() {
    let grid = ViewGrid::new(5, 5, 3, 2).unwrap();
    let mut pixels = vec![9.0; 25];
    agents_to_pixels(&grid, &[1.0, 2.0, 3.0, 6.0], &mut pixels);
    assert_eq!([pixels[0], pixels[2], pixels[4], pixels[12], pixels[24]], [1.0, 1.5, 2.0, 3.0, 6.0]);
}

#[test]
fn the_ending_of_the_name_says_what_is_written() {
    let folder = std::env::temp_dir().join(format!("sheaf-draw-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let example = example();
    for (name, start) in [("a.png", &b"\x89PNG"[..]), ("a.GIF", b"GIF89a"), ("a.svg", b"<svg")] {
        let path = folder.join(name);
        export::write(&path, &example.scene(), &[example.frame(), example.frame()]).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(start));
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
    std::fs::remove_dir_all(&folder).unwrap();
    for name in ["a.jpg", "a"] {
        let error = export::write(Path::new(name), &example.scene(), &[example.frame()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(export::check_name(Path::new(name)).is_err());
    }
    let missing = Path::new("/nonexistent-folder/a.png");
    assert_eq!(
        export::write(missing, &example.scene(), &[example.frame()]).unwrap_err().kind(),
        ErrorKind::Io
    );
}

#[test]
fn walls_called_path_are_marked_where_the_truth_is_known() {
    let example = example();
    let mut predicted = example.label.clone();
    let wall = example.tokens.iter().position(|&t| t == WALL).unwrap();
    predicted[wall] = PATH;
    let frame = Frame { predicted: Some(&predicted), ..example.frame() };
    assert!(maze_terminal::render(&example.scene(), &frame, Style::Ascii).unwrap().starts_with('x'));
}
