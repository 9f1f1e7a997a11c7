// The page: one experiment, its films, and what is shown of them.

import { showAgent } from "./agent.js";
import { Board, frames, layer } from "./board.js";
import { curveIteration, curves } from "./charts.js";
import { CLASS, colours, readTheme } from "./colours.js";
import { chips, interventions, options, settings } from "./controls.js";
import { EDITS, Editor, fromFile, next, tools } from "./edit.js";
import { saveData, savePicture, saveScript } from "./export.js";
import { KINDS, SIZES, canUndo, change, experiment, forget, fresh, fromLink, link, load, missing, script, undo, view, words } from "./state.js";
import { Line, models, solve } from "./wire.js";

const $ = (id) => document.getElementById(id);
const left = new Board($("left").querySelector("canvas")), right = new Board($("right").querySelector("canvas"));
const all = { models: [], film: null, other: null, playing: false, dirty: true, panel: true, ranges: new Map() };
// For tests: what is shown and how fast.
window.sheaf = { view, experiment, all, right, frames: 0 };

const line = new Line(arrived, failed, (busy) => document.body.classList.toggle("busy", busy));
const editor = new Editor(right, () => all.film, changed, choose, draw);

const STORIES = {
  maze: "Each square is watched by an agent that sees <b>3 × 3 cells</b> and talks only to its eight neighbours. Together they find the way from S to G. Press <b>Play</b>, then <b>Kick</b> an agent, paint a wall, or move the goal while they negotiate.",
  sudoku: "<b>27 agents</b>, the squares R, C and B: one per row, column and box. Each sees nine cells; three of them must agree on every cell. Press <b>Play</b>, then pin, remove or contradict one of them.",
  mnist: "<b>81 agents</b> see nine pixels each and vote on the digit after talking to their neighbours. Press <b>Play</b>, then draw, erase, or take agents out.",
};
const SCALE_NOTE = "Dark is small, yellow is large, on a logarithmic scale.";
const LAYERS = [
  ["answer", "Answer", "What the agents answer together; deeper colours are surer."],
  ["primal", "Primal", `How far each agent's proposal x is from the agreement z. ${SCALE_NOTE}`],
  ["dual", "Dual", `How much the agreement z still moves, times ρ. ${SCALE_NOTE}`],
  ["ratio", "Log-ratio", "Primal over dual: dark where agreement still moves, yellow where proposals lag behind."],
  ["norm", "|u|", `The memory of disagreement. ${SCALE_NOTE}`],
  ["difference", "Difference", `How far states are from those of the undisturbed run. ${SCALE_NOTE}`],
];

start();

async function start() {
  readTheme();
  try {
    const told = await models();
    all.models = told.models;
    const shared = fromLink(location.hash);
    const task = told.task ?? all.models[0].task;
    load(shared ? repaired(shared.e) : newExperiment(task));
    known = experiment.interventions.length;
    if (shared) Object.assign(view, shared.v);
  } catch (error) { failed(error); return; }
  build();
  ask();
  requestAnimationFrame(tick);
}

const model = (name = experiment.model) => all.models.find((one) => one.name === name);
const newExperiment = (task) => {
  const first = all.models.find((one) => one.task === task) ?? all.models[0];
  return fresh(first.task, first.name, first.iterations);
};
// A link may name a model that this server does not have.
const repaired = (e) => (all.models.some((one) => one.name === e.model) ? e : { ...e, model: newExperiment(e.task).model, other: "" });

// Requests.

function ask() {
  const own = model(), other = model(experiment.other), { flow, agent } = view;
  const body = { model: own.name, script: script(own.coordination), compare: true, flow, agent };
  line.ask(() => Promise.all([solve(body), other ? solve({ model: other.name, script: script(other.coordination), flow }) : null]));
}

function arrived([film, other]) {
  Object.assign(all, { film, other, panel: true });
  all.ranges.clear();
  view.k = Math.min(Math.max(1, view.k), film.shapes.curves[0]);
  editor.settled();
  build();
  draw();
}

function failed(error) {
  toast(error.message, true);
  editor.settled();
  build();
}

// A new intervention acts after the iteration that is shown: say where to look.
let known = 0;
function changed() {
  const { interventions: list, iterations } = experiment;
  if (list.length > known) {
    const one = list.at(-1), where = one.k === iterations ? "This is the last iteration: go back in time to intervene earlier." : "Press Play to see what follows.";
    toast(`From k = ${one.k} on: ${words(one)}. ${where}`);
  }
  known = list.length;
  build();
  ask();
}

function choose(agent) {
  view.agent = agent;
  if (agent != null) $("side").scrollTop = 0;
  ask();
  draw();
}

// Controls.

function build() {
  const { task } = experiment, own = model();
  if (!own) return;
  document.querySelectorAll("#tasks button").forEach((b) => {
    b.setAttribute("aria-selected", String(b.dataset.task === task));
    b.hidden = !all.models.some((one) => one.task === b.dataset.task);
  });
  $("story").innerHTML = STORIES[task];
  $("seed").value = experiment.input.seed ?? "";
  $("seed").placeholder = "edited";
  options($("size"), SIZES.map((n) => [n, `${n} × ${n}`]), experiment.input.size ?? 19, task === "maze");
  options($("kind"), KINDS.map((name) => [name, name]), experiment.input.kind ?? "singles", task === "sudoku");
  options($("models"), all.models.filter((one) => one.task === task).map((one) => [one.name, title(one)]), experiment.model, true);
  const others = all.models.filter((one) => one.task === task && one.name !== experiment.model);
  options($("other"), [["", "the undisturbed run"], ...others.map((one) => [one.name, title(one)])], experiment.other, true);
  $("iterations").value = experiment.iterations;
  $("scrub").max = experiment.iterations;
  $("undo").disabled = !canUndo();
  chips($("tools"), tools(task), view.tool, (name) => { view.tool = name; build(); draw(); });
  $("tool-help").textContent = tools(task).find(([name]) => name === view.tool)?.[2] ?? "";
  $("when").hidden = !EDITS.has(view.tool);
  const admm = own.coordination === "admm";
  const known = LAYERS.filter(([name]) => name === "answer" || name === "primal" || (name === "difference" ? all.film?.distances : admm));
  if (!known.some(([name]) => name === view.layer)) view.layer = "answer";
  chips($("layers"), known, view.layer, (name) => { view.layer = name; build(); draw(); });
  $("layer-help").textContent = known.find(([name]) => name === view.layer)[2];
  $("edges").checked = view.edges; $("flow").checked = view.flow;
  $("edges").disabled = $("flow").disabled = !admm;
  settings(own, changed);
  interventions(seek, changed);
}

// Drawing.

function draw() { all.dirty = true; }

let last = 0;
function tick(now) {
  if (all.playing && all.film) {
    const total = all.film.shapes.curves[0], step = Math.max(33, Math.min(120, 6000 / total));
    if (now - last >= step) {
      last = now;
      if (view.k >= total) playing(false); else { view.k++; all.dirty = true; }
    }
  }
  if (all.dirty && all.film) { all.dirty = false; render(); window.sheaf.frames++; }
  requestAnimationFrame(tick);
}

function render() {
  const { film, other } = all, k = Math.min(view.k, film.shapes.curves[0]), base = film.base_classes != null;
  const twin = other ?? (base ? film : null), prefix = other ? "" : "base_";
  $("left").hidden = !twin;
  if (twin) {
    $("left-title").innerHTML = caption(other ? title(other.about.model) : "Undisturbed", answerAt(twin, Math.min(k, twin.shapes.curves[0]), prefix));
    left.draw(twin, { ...look(twin, Math.min(k, twin.shapes.curves[0]), prefix), ...(view.layer === "difference" ? { layer: "answer" } : {}), agent: view.agent, missing: other ? missing(k) : { removed: new Set(), cut: new Set(), pinned: new Set() } });
  }
  $("right-title").innerHTML = twin ? caption(other ? title(film.about.model) : "With your interventions", answerAt(film, k, "")) : "";
  right.draw(film, { ...look(film, k, ""), agent: view.agent, missing: missing(k), drag: editor.drag, cell: view.tool === "digit" ? editor.cell : null, other: twin, otherPrefix: prefix });
  curves($("curves"), film, { k, marks: experiment.interventions.map((one) => one.k), distance: film.about.comparison?.distance });
  $("where").textContent = `k = ${k} / ${film.shapes.curves[0]}`;
  $("scrub").value = k;
  document.querySelectorAll(".k-next").forEach((node) => { node.textContent = `k = ${next()}`; });
  votes(film, k);
  verdict(film, k);
  if (all.panel || view.agent != null) {
    // While playing, the panel follows ten times a second.
    if (!all.playing || all.panel || k % 3 === 0) showAgent($("agent"), { ...film, about: { ...film.about, agent: view.agent === film.about.agent ? view.agent : null } }, k, choose);
    all.panel = false;
  }
}

// Ranges of scales over the whole film, computed once per layer.
function look(film, k, prefix) {
  const key = `${view.layer} ${film === all.other}`;
  if (!all.ranges.has(key)) {
    let low = Infinity, high = 1e-9;
    const total = film.shapes.curves[0];
    for (let i = 1; i <= total; i += Math.max(1, Math.floor(total / 40))) {
      for (const v of layer(film, { layer: view.layer, k: i, prefix: "" }) ?? []) if (v > 1e-6) { low = Math.min(low, v); high = Math.max(high, v); }
    }
    const top = (values) => values?.reduce((a, b) => Math.max(a, b), 0) ?? 1;
    all.ranges.set(key, { range: [Math.log(Math.max(low, high * 1e-4)), Math.log(high) + 1e-6], edgeTop: top(film.edges), flowTop: top(film.flow) });
  }
  return { k, prefix, layer: view.layer, edges: view.edges, flow: view.flow, ...all.ranges.get(key) };
}

function votes(film, k) {
  const box = $("votes"), now = frames(film, "", k).votes;
  box.hidden = !now;
  if (!now) return;
  if (box.children.length !== now.length) {
    box.replaceChildren(...Array.from(now, (_, c) => {
      const row = Object.assign(document.createElement("div"), { className: "vote" });
      row.innerHTML = `<span></span><i><b></b></i><span></span>`;
      row.children[0].textContent = c;
      row.children[0].style.color = CLASS[c % 10];
      return row;
    }));
  }
  const best = now.indexOf(Math.max(...now));
  [...box.children].forEach((row, c) => {
    row.classList.toggle("best", c === best);
    row.querySelector("b").style.width = `${100 * now[c]}%`;
    row.children[2].textContent = `${(100 * now[c]).toFixed(0)} %`;
  });
}

// The answer after iteration k: whether it is right (null if nobody knows), and what it is.
function answerAt(film, k, prefix) {
  const { votes: now, label } = frames(film, prefix, k), right = film[`${prefix}right`][k - 1] === 1;
  if (now) {
    const best = now.indexOf(Math.max(...now)), text = `a ${best}, with ${(100 * now[best]).toFixed(0)} % of the votes`;
    return { right: label ? right : null, text: label && !right ? `${text}; it is a ${label[0]}` : text };
  }
  if (!prefix && k === film.shapes.curves[0]) return { right, text: film.about.answer };
  return { right, text: `${right ? "solved" : "not solved"} at k = ${k}` };
}

function caption(name, { right, text }) {
  const [style, mark] = right == null ? ["", ""] : right ? ["good", "✓ "] : ["bad", "○ "];
  return `${name ? `<b>${escape(name)}</b> ` : ""}<span class="${style}">${mark}${escape(text)}</span>`;
}

const title = ({ name, coordination }) => (coordination === "message-passing" ? `${name} (message passing)` : name);

function verdict(film, k) {
  const { comparison, notes } = film.about, parts = [caption("", answerAt(film, k, ""))];
  if (comparison?.first) {
    const { parted, agree_to_the_end: again, recovery, cells_changed: cells } = comparison;
    if (!parted) parts.push("the answer never changes");
    else if (again) parts.push(`answers part at k = ${parted} and agree again from k = ${again}, ${recovery} iterations after the last intervention`);
    else parts.push(`answers part at k = ${parted} and differ in ${cells} cell${cells === 1 ? "" : "s"} at the end`);
  }
  parts.push(...(notes ?? []).map(escape));
  $("verdict").innerHTML = parts.join(" · ");
}

const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));

function seek(k) {
  if (!all.film) return;
  view.k = Math.max(1, Math.min(all.film.shapes.curves[0], k));
  settings(model(), changed);
  draw();
}

function playing(on) {
  if (on && all.film && view.k >= all.film.shapes.curves[0]) view.k = 1;
  all.playing = on;
  $("play").textContent = on ? "❚❚ Pause" : "▶ Play";
  $("play").setAttribute("aria-label", on ? "Pause" : "Play");
  draw();
}

let hide;
function toast(text, bad = false) {
  const box = $("toast");
  box.textContent = text;
  box.className = bad ? "on bad" : "on";
  clearTimeout(hide);
  hide = setTimeout(() => { box.className = ""; }, bad ? 6000 : 2500);
}

// Events.

function open(next) { change(() => load(next)); Object.assign(view, { agent: null, k: 1 }); editor.cell = null; changed(); }
const sample = (more) => change((e) => { e.input = { ...(e.input.seed != null ? e.input : newExperiment(e.task).input), ...more }; delete e.input.pixels; e.inputs = []; e.interventions = e.interventions.filter((one) => one.do.input == null); });

document.querySelectorAll("#tasks button").forEach((b) => { b.onclick = () => { view.tool = "inspect"; open(newExperiment(b.dataset.task)); }; });
$("fresh").onclick = () => { sample({ seed: Math.floor(Math.random() * 1e6) }); changed(); };
$("seed").onchange = (event) => { const seed = Math.max(0, Math.floor(Number(event.target.value))); if (Number.isSafeInteger(seed)) { sample({ seed }); changed(); } };
$("size").onchange = (event) => { sample({ size: Number(event.target.value), seed: experiment.input.seed ?? 7 }); change((e) => { e.interventions = []; }); view.agent = null; changed(); };
$("kind").onchange = (event) => { sample({ kind: event.target.value, seed: experiment.input.seed ?? 5 }); changed(); };
$("models").onchange = (event) => { change((e) => { e.model = event.target.value; if (e.other === e.model) e.other = ""; }); changed(); };
$("other").onchange = (event) => { change((e) => { e.other = event.target.value; }); changed(); };
$("iterations").onchange = (event) => { const k = Math.floor(Number(event.target.value)); if (k >= 1 && k <= 1000) { change((e) => { e.iterations = k; e.interventions = e.interventions.filter((one) => one.k <= k); }); changed(); } else build(); };
$("undo").onclick = () => { if (undo()) { view.agent = null; changed(); } };
$("reset").onclick = () => { change((e) => { const seed = e.input.seed; const own = newExperiment(e.task); Object.assign(e, { ...own, model: e.model, other: e.other, iterations: e.iterations, input: seed == null ? own.input : e.input }); }); changed(); };
$("share").onclick = async () => {
  history.replaceState(null, "", link());
  try { await navigator.clipboard.writeText(location.href); toast("Link copied. It contains the whole experiment."); } catch { toast("The address bar has the link."); }
};
$("export").onchange = (event) => {
  const what = event.target.value;
  event.target.value = "";
  if (!all.film) return;
  if (what === "script") saveScript(model().coordination);
  if (what === "picture") savePicture($("left").hidden ? [right.canvas] : [left.canvas, right.canvas], colours().paper);
  if (what === "data") saveData(all.film);
};
$("theme").onclick = () => { document.documentElement.dataset.theme = colours().dark ? "light" : "dark"; readTheme(); all.panel = true; draw(); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); all.panel = true; draw(); });
$("import").onclick = () => $("file").click();
$("file").onchange = async (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  try {
    const { task, input, script: given } = await fromFile(file);
    const own = newExperiment(given?.task ?? task);
    open(given ? { ...own, inputs: [], interventions: [], ...given, model: own.model, other: "", iterations: given.iterations ?? own.iterations } : { ...own, input });
  } catch (error) { toast(`This file cannot be read: ${error.message}`, true); }
};
document.querySelectorAll('input[name="when"]').forEach((radio) => { radio.onchange = () => { view.when = radio.value; }; });
$("edges").onchange = (event) => { view.edges = event.target.checked; draw(); };
$("flow").onchange = (event) => { view.flow = event.target.checked; ask(); };
$("scrub").oninput = (event) => { playing(false); seek(Number(event.target.value)); };
$("first").onclick = () => { playing(false); seek(1); };
$("back").onclick = () => { playing(false); seek(view.k - 1); };
$("forth").onclick = () => { playing(false); seek(view.k + 1); };
$("play").onclick = () => playing(!all.playing);
let scrubbing = false;
const toCurve = (event) => { if (all.film) { playing(false); seek(curveIteration($("curves"), event, all.film.shapes.curves[0])); } };
$("curves").addEventListener("pointerdown", (event) => { scrubbing = true; $("curves").setPointerCapture(event.pointerId); toCurve(event); });
$("curves").addEventListener("pointermove", (event) => { if (scrubbing) toCurve(event); });
$("curves").addEventListener("pointerup", () => { scrubbing = false; });
addEventListener("resize", () => { all.panel = true; draw(); });
addEventListener("hashchange", () => { const shared = fromLink(location.hash); if (shared) { change(() => load(repaired(shared.e))); Object.assign(view, shared.v); changed(); } });
addEventListener("paste", (event) => {
  if (event.target.matches("input, textarea")) return;
  const text = event.clipboardData.getData("text").trim();
  const cells = text.replace(/[\s|+=-]/g, "");
  if (cells.length === 81 && !/[#SG]/.test(cells)) open({ ...newExperiment("sudoku"), input: { text: cells } });
  else if (/[#█]/.test(text)) open({ ...newExperiment("maze"), input: { text } });
});
addEventListener("keydown", (event) => {
  if (event.target.matches("input:not([type=range]):not([type=checkbox]):not([type=radio]), select, textarea")) return;
  if ((event.ctrlKey || event.metaKey) && event.key === "z") { event.preventDefault(); $("undo").click(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^[0-9]$/.test(event.key) && view.tool === "digit") { editor.type(Number(event.key)); return; }
  const onBoard = event.target === right.canvas, onSlider = event.target.matches("input[type=range]");
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (onBoard && moves) { event.preventDefault(); walk(moves); return; }
  if (onBoard && event.key === "Enter" && view.agent != null && all.film) { tool(view.agent); return; }
  const keys = {
    " ": () => { if (!event.target.matches("button")) { event.preventDefault(); playing(!all.playing); } },
    ArrowLeft: () => { if (!onSlider) seek(view.k - 1); }, ArrowRight: () => { if (!onSlider) seek(view.k + 1); },
    Home: () => { if (!onSlider) seek(1); }, End: () => { if (!onSlider) seek(Infinity); },
    n: () => $("fresh").click(), Escape: () => { if (view.agent != null) choose(null); },
    Backspace: () => { if (view.tool === "digit") editor.type(0); },
  };
  keys[event.key]?.();
});

// The keyboard's way to an agent: the nearest one in that direction.
function walk([down, across]) {
  const { film } = all;
  if (!film) return;
  const from = view.agent ?? 0, [row, column] = [film.places[2 * from], film.places[2 * from + 1]];
  let best = view.agent == null ? 0 : from, least = Infinity;
  for (let i = 0; i < film.about.agents && view.agent != null; i++) {
    const [dr, dc] = [film.places[2 * i] - row, film.places[2 * i + 1] - column], along = dr * down + dc * across, off = Math.abs(dr * across) + Math.abs(dc * down);
    if (along > 0.1 && along + 3 * off < least) [best, least] = [i, along + 3 * off];
  }
  choose(best);
}

function tool(agent) {
  if (view.tool === "kick") editor.kick(all.film, agent, 2);
  if (view.tool === "pin") editor.pin(all.film, agent);
  if (view.tool === "remove") editor.remove(agent);
}

window.sheaf.forget = forget;
