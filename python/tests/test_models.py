"""Trained models, data and training."""

import json
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest

import sheaf_admm as sa


@pytest.fixture(scope="module")
def maze_model():
    return sa.load("builtin:maze")


@pytest.fixture(scope="module")
def mazes():
    return sa.maze.generate(20, seed=5)


def test_mazes_are_solved(maze_model, mazes):
    inputs, paths = mazes
    predicted = maze_model.predict(inputs)
    assert predicted.shape == inputs.shape and predicted.dtype == np.uint8
    solved = ((predicted == sa.maze.PATH) == (paths == sa.maze.PATH)).all(axis=(1, 2))
    score = maze_model.score(inputs, paths)
    assert score["solved"] == solved.mean() >= 0.9 and score["iterations"] == 100
    np.testing.assert_array_equal(maze_model.predict(inputs[3]), predicted[3])
    assert maze_model.score(inputs, paths, settle=True)["iterations"] < 100


def test_answers_do_not_depend_on_threads_or_order_of_memory(maze_model, mazes):
    inputs, _ = mazes
    expected = maze_model.predict(inputs, 30)
    np.testing.assert_array_equal(maze_model.predict(inputs, 30, threads=1), expected)
    np.testing.assert_array_equal(maze_model.predict(np.asfortranarray(inputs), 30), expected)
    np.testing.assert_array_equal(maze_model.predict(inputs[:, ::-1, ::-1].copy()[:, ::-1, ::-1], 30), expected)


def test_a_trace_ends_at_the_answer(maze_model, mazes):
    inputs, _ = mazes
    trace = maze_model.trace(inputs[0], 25)
    assert trace["x"].shape == trace["z"].shape == trace["u"].shape == (25, 81, 10)
    assert trace["primal"].shape == trace["dual"].shape == (25, 81) and trace["edge_rms"].shape == (25,)
    assert trace["logits"].shape == (25, 81, 54) and trace["start"].shape == (81, 10)
    np.testing.assert_array_equal(trace["predicted"][-1], maze_model.predict(inputs[0], 25))
    relaxed = trace["x"]
    np.testing.assert_allclose(trace["u"][1:] - trace["u"][:-1], (relaxed - trace["z"])[1:], atol=1e-4)


def test_the_problem_of_the_agents_runs_in_the_layer(maze_model, mazes):
    inputs, _ = mazes
    trace = maze_model.trace(inputs[1], 12)
    found = maze_model.intervene(inputs[1], lambda problem: None, 12, window=12)
    np.testing.assert_allclose(found["iterates"], trace["x"], atol=2e-4)
    np.testing.assert_array_equal(found["predicted"], trace["predicted"][-1])


def test_an_intervention_changes_the_answer_near_it(maze_model, mazes):
    inputs, _ = mazes
    centres = sa.maze.centres(19, 19)
    assert centres.shape == (81, 2)

    def mute(problem):
        """Agents of the middle row tell their neighbours nothing."""
        middle = centres[:, 0] == 9
        problem["base"] = np.ascontiguousarray(problem["base"])
        rank = problem["a"].shape[-1]
        full = problem["base"] + problem.pop("scale") * np.einsum("bnser,bnsvr->bnsev", problem.pop("a"), problem.pop("b"))
        del problem["base"]
        full[:, middle] = 0
        assert rank > 0
        return dict(problem, maps=full)

    before = maze_model.intervene(inputs[2], lambda problem: None)["predicted"]
    after = maze_model.intervene(inputs[2], mute)["predicted"]
    assert (before != after).any()


def test_interventions_act_while_the_agents_coordinate(maze_model, mazes):
    maze = mazes[0][0]
    plain = maze_model.intervene(maze, [], 40)
    np.testing.assert_array_equal(plain["predicted"][-1][maze == 2] == 5, maze_model.predict(maze, 40)[maze == 2] == 5)
    kick = {"k": 21, "do": {"noise": {"of": "z", "agents": "all", "deviation": 3, "seed": 1}}}
    film = maze_model.intervene(maze, [kick], 40)
    np.testing.assert_array_equal(film["z"][19], plain["z"][19])
    np.testing.assert_array_equal(film["base_z"], plain["z"])
    assert film["distance"][19] == 0 and film["distance"][20] > 0.1
    assert film["comparison"]["first"] == 21 and film["predicted"].shape == (40, 19, 19)
    moved = maze.copy()
    free = np.argwhere(maze == 2)
    moved[maze == 4], moved[tuple(free[0])] = 2, 4
    film = maze_model.intervene(maze, [{"k": 10, "do": {"input": 1}}], 40, inputs=[moved])
    assert film["input"][8] == 0 and film["input"][9] == 1
    with pytest.raises(sa.Error, match="interventions.0..k: expected an iteration from 1 to 5"):
        maze_model.intervene(maze, [kick], 5)


def test_sudoku():
    model = sa.load("builtin:sudoku")
    puzzles, solutions = sa.sudoku.generate(4, "singles", seed=2)
    boards = model.predict(puzzles)
    assert boards.shape == (4, 9, 9)
    score = model.score(puzzles, solutions)
    assert score["solved"] == (boards == solutions).all(axis=(1, 2)).mean() >= 0.75
    trace = model.trace(puzzles[0], 5)
    assert trace["predicted"].shape == (5, 9, 9) and trace["x"].shape == (5, 27, 288)
    np.testing.assert_array_equal(sa.sudoku.parse(sa.sudoku.draw(puzzles[0])), puzzles[0])
    arrays, options = model.problem(puzzles[0])
    assert arrays["maps"].shape == (9, 32, 288) and (options["d_v"], options["d_e"]) == (288, 32)


def test_mnist():
    model = sa.load("builtin:mnist")
    pictures, labels = sa.mnist.digits(30, seed=3)
    score = model.score(pictures, labels, 20)
    assert score["accuracy"] == (model.predict(pictures, 20) == labels).mean() >= 0.6
    floats = pictures.astype(np.float32) / 255
    np.testing.assert_array_equal(model.predict(floats, 20), model.predict(pictures, 20))
    padded, none = sa.mnist.shift(pictures, "pad:4")
    assert none is None and padded.shape == (30, 36, 36)
    np.testing.assert_allclose(padded[:, 4:-4, 4:-4], floats)
    dropped, mask = sa.mnist.shift(pictures, "drop:0.3", seed=1)
    np.testing.assert_allclose(dropped, floats)
    assert mask.shape == (30, 81) and 0.2 < mask.mean() < 0.4
    assert model.predict(dropped, 20, dropped=mask).shape == (30,)
    noisy, _ = sa.mnist.shift(pictures, "noise:0.1", seed=1)
    other, _ = sa.mnist.shift(pictures, "noise:0.1", seed=1, draw=1)
    assert (noisy != other).any() and noisy.min() >= 0 and noisy.max() <= 1
    assert model.trace(pictures[0], 4)["predicted"].shape == (4,)
    found = model.intervene(pictures[0], lambda problem: None, 20)
    assert found["predicted"] == model.predict(pictures[0], 20)


def test_generated_data_is_that_of_the_tool():
    inputs, paths = sa.maze.generate(3, 11, width=15, seed=9)
    assert inputs.shape == (3, 11, 15) and (inputs == sa.maze.START).sum() == 3
    again, _ = sa.maze.generate(5, 11, width=15, seed=9)
    np.testing.assert_array_equal(again[:3], inputs)
    assert set(sa.maze.draw(paths[0])) <= set("# SG.\n")


BAD = [
    (lambda m: sa.load("builtin:chess"), "built-in weights: expected builtin:maze"),
    (lambda m: sa.load("/nowhere.safetensors"), "/nowhere.safetensors"),
    (lambda m: m.predict(np.zeros((2, 19, 19), dtype=np.uint8)), "1 (wall)"),
    (lambda m: m.predict(np.ones((0, 19, 19), dtype=np.uint8)), "an empty batch"),
    (lambda m: m.predict(np.ones((19, 19))), "mazes: expected an array of uint8, got ndarray of float64"),
    (lambda m: m.predict(np.ones(19, dtype=np.uint8)), "[n, height, width]"),
    (lambda m: m.trace(np.ones((2, 19, 19), dtype=np.uint8)), "maze: expected one sample, got 2 samples"),
    (lambda m: sa.maze.generate(1, 18), "odd"),
    (lambda m: sa.sudoku.generate(1, "easy"), "kind of puzzles: expected mixed"),
    (lambda m: sa.mnist.shift(np.zeros((1, 28, 28), dtype=np.uint8), "pad"), "hint: write none, pad:PIXELS"),
    (lambda m: sa.sudoku.parse("123"), "board: expected 81 cells, got 3"),
    (lambda m: sa.mnist.read("/nowhere"), "/nowhere"),
    (lambda m: m.load_state_dict({}), "nothing"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_is_an_exception(maze_model, number):
    call, text = BAD[number]
    with pytest.raises(sa.Error) as caught:
        call(maze_model)
    assert text in str(caught.value), caught.value


def test_weights_are_pickled_saved_and_loaded(maze_model, mazes, tmp_path):
    inputs, _ = mazes
    expected = maze_model.predict(inputs[:2], 20)
    again = pickle.loads(pickle.dumps(maze_model))
    np.testing.assert_array_equal(again.predict(inputs[:2], 20), expected)
    maze_model.save(tmp_path / "maze.safetensors")
    loaded = sa.load(tmp_path / "maze.safetensors")
    assert loaded.config == maze_model.config and loaded.parameters == 181_859
    state = maze_model.state_dict()
    assert sum(value.size for value in state.values()) == 181_859
    changed = dict(state, rho=state["rho"] + 1)
    loaded.load_state_dict(changed)
    assert (loaded.trace(inputs[0], 5)["x"] != maze_model.trace(inputs[0], 5)["x"]).any()
    loaded.load_state_dict(state)
    np.testing.assert_array_equal(loaded.predict(inputs[:2], 20), expected)
    for wrong in (dict(state, other=state["rho"]), dict(state, rho=np.zeros(2)), dict(state, rho=np.float32("nan"))):
        with pytest.raises(sa.Error):
            loaded.load_state_dict(wrong)


def test_weights_pass_through_a_torch_state_dict(maze_model, mazes):
    torch = pytest.importorskip("torch")
    import sheaf_admm.torch as st

    state = st.state_dict(maze_model)
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    again = sa.load("builtin:maze")
    st.load_state_dict(again, {name: value * 0 for name, value in state.items()})
    assert not again.state_dict()["rho"].any()
    st.load_state_dict(again, state)
    np.testing.assert_array_equal(again.predict(mazes[0][0], 10), maze_model.predict(mazes[0][0], 10))


SMALL = """
task = "maze"
[data]
size = 7
min_path = 4
count = 64
test_count = 8
[iterations]
train = 4
train_max = 4
eval = 6
[train]
batch = 16
steps = 12
log_every = 2
eval_every = 6
[eval]
larger = 0
"""


def test_training_reports_every_step_and_leaves_a_run(tmp_path):
    pandas = pytest.importorskip("pandas")
    news = []
    done = sa.train(SMALL, tmp_path / "run", callback=news.append)
    assert done["finished"] and os.path.exists(done["weights"])
    steps = [n for n in news if n["event"] == "step"]
    assert [n["step"] for n in steps] == list(range(1, 13)) and all(np.isfinite(n["loss"]) for n in steps)
    assert [n["step"] for n in news if n["event"] == "evaluated"] == [6, 12]
    frame = sa.read_metrics(tmp_path / "run")
    assert isinstance(frame, pandas.DataFrame) and {"step", "loss", "eval/solved"} <= set(frame.columns)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(frame) == len(lines) and frame["step"].tolist() == [json.loads(line)["step"] for line in lines]
    model = sa.load(done["weights"])
    assert model.predict(sa.maze.generate(1, 7, min_path=4)[0]).shape == (1, 7, 7)


def test_a_recipe_in_stages_is_trained_stage_by_stage(tmp_path):
    recipe = SMALL + "\n[[stage]]\nname = \"first\"\n[[stage]]\nname = \"second\"\ntrain.learning_rate = 1e-5\n"
    news = []
    ending = sa.train(recipe, tmp_path / "run", callback=news.append)
    assert ending["finished"] and (tmp_path / "run" / "stage-2" / "final.safetensors").is_file()
    stages = [(one["name"], one["number"], one["count"]) for one in news if one["event"] == "stage"]
    assert stages == [("first", 1, 2), ("second", 2, 2)]
    assert sa.load(ending["weights"]).task == "maze"


def test_a_callback_can_end_a_run_that_then_resumes(tmp_path):
    whole = sa.train(SMALL, tmp_path / "whole")
    part = sa.train(SMALL, tmp_path / "part", callback=lambda news: news["step"] < 5)
    assert not part["finished"] and part["step"] == 5
    rest = sa.train(SMALL, tmp_path / "part", resume=True, set={"train.keep_checkpoints": 3})
    a, b = (sa.load(run["weights"]).state_dict() for run in (whole, rest))
    assert all(a[name].tobytes() == b[name].tobytes() for name in a)


def test_an_exception_in_a_callback_ends_the_run_and_comes_back(tmp_path):
    def fail(news):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sa.train(SMALL, tmp_path / "run", callback=fail)
    with pytest.raises(sa.Error, match="task"):
        sa.train("task = 'chess'\n", tmp_path / "other")
    with pytest.raises(sa.Error, match="train.stepz"):
        sa.train(SMALL, tmp_path / "other", set={"train.stepz": 3})


def test_control_c_saves_a_run(tmp_path):
    code = f"""
import signal, sheaf_admm as sa
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it would be ignored
try:
    sa.train({SMALL!r}, {str(tmp_path / "run")!r}, set={{"train.steps": 100000}}, callback=lambda n: print(n["step"], flush=True))
except KeyboardInterrupt:
    raise SystemExit(7)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        assert child.wait(timeout=60) == 7
    finally:
        child.kill()
        child.stdout.close()
    assert list((tmp_path / "run").rglob("*.safetensors")), "a checkpoint is there"
