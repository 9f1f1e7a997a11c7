//! Recipes of several stages, and what their weights say of themselves.

use std::fs;

use super::support::{TINY, fails, file, json, ok, sheaf};

const STAGES: &str = "\n[[stage]]\nname = \"short\"\ntrain.steps = 12\ntrain.average_last = 2\n\n\
                      [[stage]]\nname = \"long\"\ntrain.steps = 8\niterations.train_max = 6\ndata.validation_count = 6\n";

#[test]
fn a_recipe_trains_its_stages_and_its_weights_tell_how_they_were_made() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "recipe.toml", format!("{TINY}{STAGES}"));
    let trained = sheaf(here, "train recipe.toml --out run --threads 1").output().unwrap();
    let told = String::from_utf8_lossy(&trained.stderr);
    assert!(told.contains("stage 1 of 2: short") && told.contains("stage 2 of 2: long"), "{told}");
    for name in ["config.toml", "final.safetensors", "best.safetensors", "stage-1/final.safetensors"] {
        assert!(here.join("run").join(name).is_file(), "{name}");
    }
    let shown = ok(here, "inspect run");
    for text in ["2 stages (short: 12 steps, long: 8 steps)", "seed        42", "chosen on   validation"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let shown = json(here, "inspect run/final.safetensors");
    assert!(shown["recipe"].as_str().unwrap().contains("[[stage]]"), "{shown}");
    assert!(shown["hours"].is_null(), "the same training gives the same file, whatever time it took");
    for weights in ["run", "run/best.safetensors"] {
        ok(here, &format!("export --weights {weights} --out w.safetensors"));
        assert!(json(here, "inspect w.safetensors")["hours"].is_number(), "{weights}");
        fs::remove_file(here.join("w.safetensors")).unwrap();
    }

    // From inside the folder of the run too; a stage does not know how long those before it took.
    for (weights, known) in [(".", true), ("final.safetensors", true), ("stage-2/final.safetensors", false)] {
        ok(&here.join("run"), &format!("export --weights {weights} --out ../w.safetensors"));
        assert_eq!(json(here, "inspect w.safetensors")["hours"].is_number(), known, "{weights}");
        fs::remove_file(here.join("w.safetensors")).unwrap();
    }

    // Weights that start from a file of one's own are not made by one command.
    let again =
        "train recipe.toml --out again --threads 1 --init run/stage-1/final.safetensors --set train.steps=8";
    ok(here, &format!("{again} --set train.average_last=0"));
    let long = json(here, "inspect again/stage-1/final.safetensors");
    assert!(long["made"].as_str().unwrap().starts_with("no single command"), "{long}");

    // A finished recipe stays finished; a changed one is refused.
    let before = fs::read(here.join("run/final.safetensors")).unwrap();
    ok(here, "train --resume --out run");
    assert!(before == fs::read(here.join("run/final.safetensors")).unwrap());
    assert!(fails(here, "train --resume --out run --set train.batch=8").contains("train.batch"));
    assert!(fails(here, "train recipe.toml --out run").contains("--resume"));
    let checkpoint = "run/stage-1/checkpoints/step-00000012.safetensors";
    assert!(
        fails(here, &format!("train --resume --out run --checkpoint {checkpoint}"))
            .contains("without stages")
    );
}

#[test]
fn mistakes_in_stages_are_found_before_the_first_begins() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    for (keys, text) in [
        ("train.stpes = 3", "did you mean `train.steps`?"),
        ("train.batch = 12", "stage `second`: train.batch"),
        ("model.d_v = 6", "parameters of the first stage"),
        ("steps = 3", "train.steps"),
    ] {
        let stages = format!("\n[[stage]]\ntrain.steps = 4\n\n[[stage]]\nname = \"second\"\n{keys}\n");
        file(here, "recipe.toml", format!("{TINY}{stages}"));
        let told = fails(here, "train recipe.toml --out run");
        assert!(told.contains(text), "{keys}: {told}");
        assert!(!here.join("run").exists());
    }
    file(here, "init.toml", TINY.replace("steps = 20", "steps = 20\ninit = \"builtin:sudoku\""));
    assert!(fails(here, "train init.toml --out run").contains("weights of its own task"));
}
