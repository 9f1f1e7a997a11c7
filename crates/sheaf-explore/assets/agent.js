// The panel of one agent: what it sees, what it wants, what it says and to whom.

import { matrix, multiples, plane } from "./charts.js";
import { colours } from "./colours.js";
import { missing } from "./state.js";

const element = (name, attributes = {}, ...children) => {
  const node = Object.assign(document.createElement(name), attributes);
  node.append(...children);
  return node;
};

export function showAgent(panel, film, k, choose) {
  const { agent } = film.about;
  panel.replaceChildren();
  panel.hidden = agent == null;
  if (agent == null) return;
  const close = element("button", { textContent: "Close", title: "Close (Esc)", onclick: () => choose(null) });
  panel.append(element("h3", {}, title(film, agent), close));
  const admm = film.about.model.coordination === "admm", d = film.shapes.x[1];
  const picture = element("canvas", { title: "What the agent sees" });
  panel.append(element("div", { className: "pair" }, element("div", {}, heading("Sees"), picture), problem(film, d)));
  view(picture, film);
  panel.append(heading(admm ? "x, z and u over time" : "state over time", ` ${d} coordinates downwards`));
  for (const name of ["x", "z", "u"].filter((name) => film[name])) {
    const canvas = element("canvas", { title: `${name}: coordinates × iterations` });
    panel.append(element("div", { className: "quiet", textContent: name }), canvas);
    matrix(canvas, transpose(film[name], film.shapes.x[0], d), d, film.shapes.x[0], Math.min(70, Math.max(24, d * 3)));
  }
  const liveliest = byVariance(film.x, film.shapes.x[0], d);
  panel.append(heading("Small multiples", `${admm ? " x blue, z green, u vermillion;" : ""} the coordinates that move most`));
  const small = element("canvas");
  panel.append(small);
  multiples(small, film, "", liveliest.slice(0, 10), k, d);
  if (d > 1) {
    panel.append(heading(admm ? "Path of x and z" : "Path of the state", " in the plane of the two liveliest coordinates"));
    const path = element("canvas");
    panel.append(path);
    plane(path, film, "", liveliest, k, d);
  }
  if (film.agent_maps) maps(panel, film);
  neighbours(panel, film, k, choose);
}

// Units of a Sudoku are called as on the board.
const short = (film, agent) => (film.about.model.task === "sudoku" ? "RCB"[Math.floor(agent / 9)] + ((agent % 9) + 1) : String(agent));

function title(film, agent) {
  if (film.about.model.task === "sudoku") return `${["Row", "Column", "Box"][Math.floor(agent / 9)]} ${(agent % 9) + 1}, agent ${agent}`;
  return `Agent ${agent}, at row ${film.places[2 * agent]}, column ${film.places[2 * agent + 1]}`;
}

const heading = (text, more = "") => element("h4", {}, text, element("span", { className: "quiet", textContent: more }));

function view(canvas, film) {
  const values = film.agent_view, task = film.about.model.task;
  const side = task === "sudoku" ? 3 : Math.round(Math.sqrt(values.length)), given = task === "sudoku" ? values.subarray(1) : values;
  [canvas.width, canvas.height] = [96, 96];
  const context = canvas.getContext("2d"), cell = 96 / side, { wall, open, ink } = colours();
  for (let i = 0; i < side * side; i++) {
    const [x, y] = [(i % side) * cell, Math.floor(i / side) * cell], v = given[i];
    if (task === "maze") context.fillStyle = { 1: wall, 3: "#009e73", 4: "#d55e00" }[v] ?? open;
    else if (task === "mnist") { const g = Math.round(18 + v * 230); context.fillStyle = `rgb(${g} ${g} ${g})`; } else context.fillStyle = open;
    context.fillRect(x, y, cell - 1, cell - 1);
    if (task === "sudoku") {
      context.fillStyle = ink; context.font = "16px system-ui, sans-serif"; context.textAlign = "center"; context.textBaseline = "middle";
      context.fillText(v ? String(v) : "·", x + cell / 2, y + cell / 2);
    }
  }
}

// D, q, l1 and bounds as strips of colour.
function problem(film, d) {
  const box = element("div", {}, heading(film.agent_diag ? "Its local problem" : "Its encoding"));
  const strip = (name, values, note) => {
    const canvas = element("canvas", { title: note });
    box.append(element("div", { className: "quiet", textContent: `${name}  ${range(values)}` }));
    if (values.length > 1) { box.append(canvas); matrix(canvas, values, 1, values.length, 9); }
  };
  const names = { diag: ["D", "curvature"], q: ["q", "slope"], l1: ["l1", "weights of |x|"], hi: ["upper bound", "x ≤ hi"] };
  for (const [name, [label, note]] of Object.entries(names)) if (film["agent_" + name]) strip(label, film["agent_" + name], note);
  if (film.agent_lo) box.append(element("div", { className: "quiet", textContent: `lower bound ${film.agent_lo[0]}` }));
  if (film.agent_rho) box.append(element("div", { className: "quiet", textContent: `ρ ${film.agent_rho[0].toPrecision(3)}` }));
  if (!film.agent_diag && film.agent_h) strip("h", film.agent_h, "what the encoder says");
  return box;
}

function range(values) {
  if (values.length === 1) return values[0].toPrecision(3);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return `${low.toPrecision(2)} … ${high.toPrecision(2)}`;
}

function maps(panel, film) {
  const [slots, rows, columns] = film.shapes.agent_maps, box = element("div", { className: "maps" });
  for (let s = 0; s < slots; s++) {
    const canvas = element("canvas", { title: `F at slot ${film.about.slots[s]}: ${rows} × ${columns}` });
    matrix(canvas, film.agent_maps.subarray(s * rows * columns, (s + 1) * rows * columns), rows, columns, 40);
    box.append(element("div", {}, canvas, film.about.slots[s] ?? String(s)));
  }
  panel.append(heading("Restriction maps", ` ${rows} × ${columns}: what it tells each neighbour`), box);
}

function neighbours(panel, film, k, choose) {
  const { agent } = film.about, count = film.ends.length / 4, rows = [];
  const { cut, removed } = missing(k);
  let top = 1e-9;
  for (let e = 0; e < count; e++) {
    const [u, v, s, t] = film.ends.subarray(4 * e, 4 * e + 4);
    if (u !== agent && v !== agent) continue;
    const other = u === agent ? v : u, value = film.edges ? film.edges[(k - 1) * count + e] : 0;
    top = Math.max(top, value);
    const gone = cut.has([u, v].toSorted((a, b) => a - b).join()) || removed.has(u) || removed.has(v);
    rows.push({ other, slot: film.about.slots[u === agent ? s : t], value, gone });
  }
  panel.append(heading("Neighbours", film.edges ? ` disagreement at k = ${k}` : ""));
  for (const { other, slot, value, gone } of rows) {
    const bar = element("b");
    bar.style.width = `${(100 * value) / top}%`;
    panel.append(element("div", { className: gone ? "neigh cut" : "neigh" },
      element("button", { textContent: `${slot} ${short(film, other)}`, title: `Look at agent ${other}`, onclick: () => choose(other) }),
      element("i", {}, bar), element("span", { textContent: film.edges ? value.toFixed(3) : "" })));
  }
}

function transpose(values, rows, columns) {
  const out = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) out[j * rows + i] = values[i * columns + j];
  return out;
}

function byVariance(values, rows, d) {
  const variance = Array.from({ length: d }, (_, c) => {
    let sum = 0, square = 0;
    for (let i = 0; i < rows; i++) { const v = values[i * d + c]; sum += v; square += v * v; }
    return square / rows - (sum / rows) ** 2;
  });
  return variance.map((_, c) => c).sort((a, b) => variance[b] - variance[a]);
}
