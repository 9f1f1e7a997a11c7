// Tools: what a pointer on the board does to the experiment.

import { change, endStroke, experiment, missing, view } from "./state.js";
import { frames } from "./board.js";

const COMMON = [
  ["inspect", "Inspect", "Click an agent to look into it."],
  ["kick", "Kick", "Drag away from an agent: noise on its state, the further the stronger."],
  ["pin", "Pin", "Click an agent to hold its state from the next iteration on; click again to release it."],
  ["remove", "Remove", "Click an agent to take it out from the next iteration on; click again to bring it back."],
  ["cut", "Cut", "Click between two agents to cut their edge from the next iteration on; click again to join them."],
];
const OWN = {
  maze: [["wall", "Wall", "Paint walls."], ["open", "Open", "Paint openings."], ["start", "Start", "Click to move the start."], ["goal", "Goal", "Click to move the goal."]],
  sudoku: [["digit", "Digit", "Click a cell and type a digit; 0 or Backspace clears it."]],
  mnist: [["pen", "Pen", "Draw."], ["erase", "Erase", "Rub out."]],
};
export const EDITS = new Set(["wall", "open", "start", "goal", "digit", "pen", "erase"]);
export const tools = (task) => [...COMMON, ...OWN[task]];

// The iteration at which an action takes effect: the one after the iteration that is shown.
export const next = () => Math.min(view.k + 1, experiment.iterations);
const state = (film) => (film.about.model.coordination === "admm" ? "z" : "h");
const act = (action, stroke) => change((e) => e.interventions.push({ k: next(), do: action }), stroke);

export class Editor {
  // `done` is called after a change of the experiment, `choose` to select an agent, `redraw` to draw only.
  constructor(board, film, done, choose, redraw) {
    Object.assign(this, { board, film, done, choose, redraw, drag: null, painting: false, cell: null });
    const { canvas } = board;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.painting = false; this.redraw(); });
  }

  down(event) {
    const film = this.film();
    if (!film) return;
    const [x, y] = this.board.place(event), agent = this.board.agentAt(film, x, y);
    this.board.canvas.setPointerCapture(event.pointerId);
    if (view.tool === "inspect") this.choose(agent);
    else if (view.tool === "kick" && agent != null) this.drag = { agent, x, y, from: [x, y] };
    else if (view.tool === "pin" && agent != null) this.pin(film, agent);
    else if (view.tool === "remove" && agent != null) this.remove(agent);
    else if (view.tool === "cut") this.cut(film, x, y);
    else if (EDITS.has(view.tool)) { this.painting = true; this.last = null; this.paint(film, x, y); }
  }

  move(event) {
    const film = this.film();
    if (!film) return;
    const [x, y] = this.board.place(event);
    if (this.drag) { Object.assign(this.drag, { x, y }); this.redraw(); } else if (this.painting) this.paint(film, x, y);
  }

  up() {
    if (this.drag) {
      const { agent, x, y, from } = this.drag, film = this.film();
      const far = Math.hypot(x - from[0], y - from[1]) / Math.max(3, film.about.width / 6);
      this.drag = null;
      this.kick(film, agent, Math.max(0.5, Math.round(far * 20) / 10));
    }
    if (this.painting) { this.painting = false; endStroke(); }
  }

  kick(film, agent, deviation) {
    const seed = experiment.interventions.length + 1;
    act({ noise: { of: state(film), agents: [agent], deviation, seed } });
    this.done();
  }

  pin(film, agent) {
    const k = next(), held = experiment.interventions.find(({ do: { pin } }) => pin && pin.agents[0] === agent && !(pin.until <= k));
    if (!held) act({ pin: { of: state(film), agents: [agent] } });
    else if (held.k < k) change(() => { held.do.pin.until = k; });
    else change((e) => { e.interventions = e.interventions.filter((one) => one !== held); });
    this.done();
  }

  remove(agent) {
    act(missing(next()).removed.has(agent) ? { restore: [agent] } : { remove: [agent] });
    this.done();
  }

  cut(film, x, y) {
    const pair = this.board.edgeAt(film, x, y);
    if (!pair) return;
    const ordered = [...pair].sort((a, b) => a - b);
    act(missing(next()).cut.has(ordered.join()) ? { join: [ordered] } : { cut: [ordered] });
    this.done();
  }

  paint(film, x, y) {
    const cell = this.board.cellAt(film, x, y);
    if (cell == null || (cell === this.last && !["pen", "erase"].includes(view.tool))) return;
    this.last = cell;
    if (view.tool === "digit") { this.cell = cell; this.redraw(); return; }
    const { cells } = frames(film, "", Math.min(view.k, film.shapes.classes[0]));
    const now = this.pending ?? Uint8Array.from(cells);
    if (experiment.task === "maze") {
      const token = { wall: 1, open: 2, start: 3, goal: 4 }[view.tool];
      if (now[cell] === 3 || now[cell] === 4) return;
      if (token >= 3) now.forEach((t, i) => { if (t === token) now[i] = 2; });
      now[cell] = token;
    } else this.brush(film, now, x, y);
    this.pending = now;
    this.write(film, now, "paint");
  }

  // A soft brush of about two pixels.
  brush(film, now, x, y) {
    const { width, height } = film.about, out = view.tool === "erase";
    for (let row = Math.floor(y) - 2; row <= y + 2; row++) for (let column = Math.floor(x) - 2; column <= x + 2; column++) {
      if (row < 0 || column < 0 || row >= height || column >= width) continue;
      const far = Math.hypot(column + 0.5 - x, row + 0.5 - y), ink = Math.max(0, Math.min(1, 1.9 - far)), i = row * width + column;
      now[i] = out ? Math.min(now[i], 255 * (1 - ink)) : Math.max(now[i], 255 * ink);
    }
  }

  // A digit typed into the chosen cell of a Sudoku.
  type(digit) {
    const film = this.film();
    if (experiment.task !== "sudoku" || this.cell == null || !film) return;
    const now = Uint8Array.from(frames(film, "", view.k).cells);
    now[this.cell] = digit;
    this.write(film, now, "");
  }

  // Makes the cells the input, of the start or from the next iteration on.
  write(film, cells, stroke) {
    const input = toInput(experiment.task, cells, film.about.width);
    if (view.when === "start") change((e) => { e.input = input; }, stroke);
    else change((e) => {
      const k = next(), last = e.interventions.findLast((one) => one.k === k && one.do.input > 0);
      if (stroke && last && this.stroking === last.do.input) e.inputs[last.do.input - 1] = input;
      else {
        e.inputs.push(input);
        e.interventions.push({ k, do: { input: e.inputs.length } });
        this.stroking = e.inputs.length;
      }
    }, stroke);
    this.done();
  }

  // After the server has answered, the film has the cells again.
  settled() {
    if (!this.painting) { this.pending = null; this.stroking = null; }
  }
}

export function toInput(task, cells, width) {
  if (task === "maze") {
    const rows = [];
    for (let i = 0; i < cells.length; i += width) rows.push(Array.from(cells.subarray(i, i + width), (t) => "?#.SG."[t]).join(""));
    return { text: rows.join("\n") };
  }
  if (task === "sudoku") return { text: Array.from(cells, (d) => d || ".").join("") };
  return { pixels: Array.from(cells), width };
}

// An input from a file: text of a maze or a Sudoku, a script, or a picture of a digit.
export async function fromFile(file) {
  if (file.type.startsWith("image/")) return { task: "mnist", input: await fromPicture(file) };
  if (file.size > 1e6) throw new Error("a file of at most 1 MB");
  const text = await file.text();
  if (file.name.endsWith(".json")) return { script: JSON.parse(text) };
  const cells = text.replace(/[\s|+=-]/g, "");
  return cells.length === 81 && !/[#SG]/.test(cells) ? { task: "sudoku", input: { text: cells } } : { task: "maze", input: { text } };
}

// Dark on light is turned round; the digit is scaled into 20 × 20 and centred in 28 × 28, as MNIST is.
async function fromPicture(file) {
  const bitmap = await createImageBitmap(file), side = 140, canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [side, side];
  const context = canvas.getContext("2d", { willReadFrequently: true }), scale = side / Math.max(bitmap.width, bitmap.height);
  context.drawImage(bitmap, (side - bitmap.width * scale) / 2, (side - bitmap.height * scale) / 2, bitmap.width * scale, bitmap.height * scale);
  const { data } = context.getImageData(0, 0, side, side), grey = new Float32Array(side * side);
  for (let i = 0; i < grey.length; i++) grey[i] = data[4 * i + 3] ? (data[4 * i] + data[4 * i + 1] + data[4 * i + 2]) / 765 : NaN;
  const rim = [...grey.subarray(0, side), ...grey.subarray(-side)].filter((v) => !Number.isNaN(v)), light = rim.reduce((a, b) => a + b, 0) / (rim.length || 1) > 0.5;
  let [left, right, top, bottom] = [side, 0, side, 0];
  for (let i = 0; i < grey.length; i++) {
    grey[i] = Number.isNaN(grey[i]) ? 0 : light ? 1 - grey[i] : grey[i];
    if (grey[i] > 0.3) { left = Math.min(left, i % side); right = Math.max(right, i % side); top = Math.min(top, Math.floor(i / side)); bottom = Math.max(bottom, Math.floor(i / side)); }
  }
  if (left > right) throw new Error("a picture with something drawn in it");
  const size = Math.max(right - left, bottom - top) + 1, pixels = new Array(784).fill(0), step = size / 20;
  for (let row = 0; row < 20; row++) for (let column = 0; column < 20; column++) {
    let sum = 0, count = 0;
    for (let y = 0; y < step; y++) for (let x = 0; x < step; x++) {
      const px = Math.floor((left + right - size) / 2 + 0.5 + column * step + x), py = Math.floor((top + bottom - size) / 2 + 0.5 + row * step + y);
      if (px >= 0 && py >= 0 && px < side && py < side) sum += grey[py * side + px];
      count++;
    }
    pixels[(row + 4) * 28 + column + 4] = Math.round((255 * sum) / count);
  }
  return { pixels, width: 28 };
}
