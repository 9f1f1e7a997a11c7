//! Recipes: an experiment file whose training has several stages.
//!
//! ```text
//! [train]                 # the keys of every stage
//! batch = 64
//!
//! [[stage]]               # what is different in the first
//! name = "short"
//! train.steps = 31_250
//!
//! [[stage]]               # and in the second, which starts from the weights of the first
//! name = "long"
//! train.steps = 1_600
//! iterations.train_max = 300
//! ```
//!
//! A stage has the keys of the file, with its own in their place; those of other stages do not matter to it. A key that
//! is overridden (`--set`) has that value in every stage.

use std::collections::BTreeMap;

use serde::Serialize;
use sheaf_admm::{Error, ErrorKind, Result};
use toml::{Table, Value};

use super::strict::{self, StrictConfig};
use crate::params::ParamLayout;

/// The key of the list of stages.
pub(super) const KEY: &str = "stage";
/// The key of a stage's name.
const NAME: &str = "name";

/// One stage of a recipe: an experiment of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name in the file; `stage 2` if it has none.
    pub name: String,
    /// Its experiment with every default written out, TOML.
    pub config: String,
}

/// An experiment file, read as a sequence of stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The whole file with every default written out, TOML: reading it again gives the same stages.
    pub config: String,
    /// The stages in order; the experiment itself if the file lists none.
    pub stages: Vec<Stage>,
    /// Whether the file lists stages.
    pub staged: bool,
    /// The parameters of the model, the same in every stage.
    pub layout: ParamLayout,
}

/// Reads `text` as a recipe and applies the overrides. `check` rejects invalid experiments of stages and gives the
/// parameters of their models.
pub fn recipe<T: StrictConfig>(
    place: &str,
    text: &str,
    overrides: &[String],
    mut check: impl FnMut(&T) -> Result<ParamLayout>,
) -> Result<Recipe> {
    let list = list(place, text)?;
    let mut layouts = Vec::new();
    let mut one = |k: usize, name: String| {
        let experiment: T = strict::parse_stage(place, text, Some(k), overrides)?;
        layouts.push(check(&experiment).map_err(|e| if list.is_empty() { e } else { in_stage(&name, &e) })?);
        Ok(Stage { name, config: strict::to_toml(&experiment)? })
    };
    let names = list.iter().enumerate().map(|(k, stage)| match stage.get(NAME).and_then(Value::as_str) {
        Some(name) => name.to_string(),
        None => format!("stage {}", k + 1),
    });
    let stages = match list.is_empty() {
        true => vec![one(0, String::new())?],
        false => names.enumerate().map(|(k, name)| one(k, name)).collect::<Result<Vec<_>>>()?,
    };
    let staged = !list.is_empty();
    let config = match list.is_empty() {
        true => stages[0].config.clone(),
        false => whole::<T>(place, text, list, overrides)?,
    };
    let layout = layouts.swap_remove(0);
    if let Some(k) = layouts.iter().position(|other| *other != layout) {
        let place = format!("{place}: stage `{}`", stages[k + 1].name);
        let want = "a model with the parameters of the first stage";
        return Err(Error::new(ErrorKind::Unsupported, place, want, "others").hint(
            "a stage starts from the weights of the one before; leave sizes and maps of [model] as they are",
        ));
    }
    Ok(Recipe { config, stages, staged, layout })
}

/// The error of a check, with the stage in its place.
fn in_stage(name: &str, error: &Error) -> Error {
    let place = format!("stage `{name}`: {}", error.place());
    let out = Error::new(error.kind(), place, error.expected(), error.got());
    match error.hint_text() {
        Some(hint) => out.hint(hint),
        None => out,
    }
}

/// The common keys with all defaults, and the stages without keys that are overridden.
fn whole<T: StrictConfig>(
    place: &str,
    text: &str,
    mut list: Vec<Table>,
    overrides: &[String],
) -> Result<String> {
    let common: T = strict::parse_stage(place, text, None, overrides)?;
    for stage in &mut list {
        for section in T::aliases().iter().filter_map(|(old, _)| old.split('.').next()) {
            if let Some(Value::Table(_)) = stage.get(section) {
                strict::rename(stage, T::aliases(), &mut BTreeMap::new());
            }
        }
        for key in overrides.iter().filter_map(|text| text.split('=').next()) {
            if let Some((section, key)) = key.trim().split_once('.')
                && let Some(Value::Table(own)) = stage.get_mut(section)
            {
                own.remove(key);
            }
        }
        stage.retain(|_, value| value.as_table().is_none_or(|own| !own.is_empty()));
    }
    #[derive(Serialize)]
    struct Whole<'a, T> {
        #[serde(flatten)]
        common: &'a T,
        stage: Vec<Table>,
    }
    strict::to_toml(&Whole { common: &common, stage: list })
}

/// The tables of the stages.
fn list(place: &str, text: &str) -> Result<Vec<Table>> {
    let table: Table = match text.parse() {
        Ok(table) => table,
        // What is wrong with the text is said where it is read.
        Err(_) => return Ok(Vec::new()),
    };
    match table.get(KEY) {
        None => Ok(Vec::new()),
        Some(value) => stages_of(place, value).map(|list| list.into_iter().cloned().collect()),
    }
}

fn stages_of<'v>(place: &str, value: &'v Value) -> Result<Vec<&'v Table>> {
    let tables = value.as_array().and_then(|list| list.iter().map(Value::as_table).collect());
    tables.filter(|list: &Vec<_>| !list.is_empty()).ok_or_else(|| {
        Error::new(ErrorKind::Malformed, format!("{place}: key `{KEY}`"), "a list of tables", "another value")
            .hint("a stage begins with [[stage]]; its keys are those of the file, like train.steps = 1000")
    })
}

/// Takes the list of stages out of the table and puts the keys of stage `chosen` (the last, if there are fewer) in the
/// place of the common ones. `origins` follows.
pub(super) fn merge(
    place: &str,
    table: &mut Table,
    chosen: Option<usize>,
    aliases: &[(&str, &str)],
    origins: &mut BTreeMap<String, String>,
) -> Result<()> {
    let Some(value) = table.remove(KEY) else { return Ok(()) };
    let list = stages_of(place, &value)?;
    let Some(k) = chosen.map(|k| k.min(list.len() - 1)) else { return Ok(()) };
    let mut own = list[k].clone();
    let prefix = format!("{KEY}[{k}].");
    // The lines of this stage's keys, under the names that they get.
    let mut lines: BTreeMap<String, String> = origins
        .iter()
        .filter_map(|(path, line)| Some((path.strip_prefix(&prefix)?.to_string(), line.clone())))
        .collect();
    strict::rename(&mut own, aliases, &mut lines);
    let line = |key: &str| lines.get(key).map_or(place, String::as_str).to_string();
    for (section, keys) in own {
        match keys {
            Value::String(_) if section == NAME => {}
            Value::Table(keys) => {
                let entry = table.entry(section.clone()).or_insert_with(|| Value::Table(Table::new()));
                origins.entry(section.clone()).or_insert_with(|| line(&section));
                for (key, value) in keys {
                    let path = format!("{section}.{key}");
                    origins.insert(path.clone(), line(&path));
                    if let Value::Table(common) = entry {
                        common.insert(key, value);
                    }
                }
            }
            other => {
                let place = format!("{}: key `{section}` of stage {}", line(&section), k + 1);
                let want = "a key of a section, such as train.steps, or `name`";
                return Err(Error::new(ErrorKind::Malformed, place, want, other.type_str()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrainSection;
    use serde::Deserialize;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct File {
        task: String,
        train: TrainSection,
    }

    impl StrictConfig for File {
        fn aliases() -> &'static [(&'static str, &'static str)] {
            &[("train.rate", "train.learning_rate")]
        }
    }

    const TEXT: &str = "task = \"t\"\n[train]\nbatch = 8\nrate = 0.5\n\n[[stage]]\nname = \"a\"\ntrain.steps = 3\n\n\
                        [[stage]]\ntrain.steps = 5\ntrain.rate = 0.25\n";

    fn read(text: &str, overrides: &[String]) -> Result<Recipe> {
        recipe::<File>("file.toml", text, overrides, |_| Ok(ParamLayout::new()))
    }

    fn files(recipe: &Recipe) -> Vec<File> {
        recipe.stages.iter().map(|s| strict::parse("stage", &s.config, &[]).unwrap()).collect()
    }

    #[test]
    fn a_stage_has_the_common_keys_with_its_own_in_their_place() {
        let recipe = read(TEXT, &[]).unwrap();
        assert!(recipe.staged);
        let names: Vec<_> = recipe.stages.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["a", "stage 2"]);
        let stages: Vec<_> =
            files(&recipe).iter().map(|f| (f.train.steps, f.train.batch, f.train.learning_rate)).collect();
        assert_eq!(stages, [(3, 8, 0.5), (5, 8, 0.25)]);
    }

    #[test]
    fn the_whole_file_written_out_gives_the_same_stages_again() {
        let set = ["train.steps=7".to_string(), "train.batch=4".to_string()];
        let recipe = read(TEXT, &set).unwrap();
        assert_eq!(files(&recipe).iter().map(|f| f.train.steps).collect::<Vec<_>>(), [7, 7]);
        assert_eq!(read(&recipe.config, &[]).unwrap(), recipe);
    }

    #[test]
    fn a_file_without_stages_is_one_stage_and_a_file_with_one_is_still_staged() {
        let alone = read("task = \"t\"\n", &[]).unwrap();
        assert!(!alone.staged && alone.stages.len() == 1 && alone.config == alone.stages[0].config);
        let one = read("[[stage]]\ntrain.steps = 3\n", &[]).unwrap();
        assert!(one.staged && one.stages.len() == 1);
        // Read as a single experiment, a file of stages is its last one.
        assert_eq!(strict::parse::<File>("f", TEXT, &[]).unwrap().train.steps, 5);
    }

    #[test]
    fn mistakes_in_a_stage_name_its_line() {
        let unknown = read(&TEXT.replace("train.steps = 5", "train.stpes = 5"), &[]).unwrap_err();
        assert!(unknown.to_string().contains("file.toml, line 11"), "{unknown}");
        assert_eq!(unknown.hint_text(), Some("did you mean `train.steps`?"));
        let bare = read("[[stage]]\nsteps = 3\n", &[]).unwrap_err();
        assert!(bare.to_string().contains("line 2") && bare.to_string().contains("steps"), "{bare}");
        assert!(read("stage = 3\n", &[]).unwrap_err().hint_text().unwrap().contains("[[stage]]"));
        let checked = recipe::<File>("f", TEXT, &[], |file| {
            let wrong = || Err(Error::new(ErrorKind::Malformed, "train.steps", "3", file.train.steps));
            if file.train.steps == 3 { Ok(ParamLayout::new()) } else { wrong() }
        });
        assert!(checked.unwrap_err().place().contains("stage `stage 2`"));
        let other = recipe::<File>("f", TEXT, &[], |file| {
            let mut layout = ParamLayout::new();
            layout.add("p", &[file.train.steps as usize]);
            Ok(layout)
        });
        assert!(other.unwrap_err().to_string().contains("parameters of the first stage"));
    }
}
