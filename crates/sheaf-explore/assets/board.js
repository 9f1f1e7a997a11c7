// Draws a board at an iteration from typed arrays, and finds what is under the pointer.

import { CLASS, DIFF, GOAL, SCALE, START, colours, css, mix } from "./colours.js";

const WALL = 1, START_CELL = 3, GOAL_CELL = 4, PATH_CELL = 5;

export class Board {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.small = document.createElement("canvas");
    this.smallContext = this.small.getContext("2d", { willReadFrequently: false });
  }

  // Fits the canvas to its box and the film to the canvas.
  fit(film) {
    const { canvas } = this, ratio = devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const extra = film.about.model.task === "sudoku" ? 3 : 0;
    const { height: rows, width: columns } = film.about;
    this.scale = Math.max(1, Math.min(width / (columns + extra), height / (rows + extra)));
    // Whole pixels are sharper; of small cells they would cost too much of the board.
    if (!extra && this.scale >= 8) this.scale = Math.floor(this.scale);
    this.x = Math.floor((width - (columns + extra) * this.scale) / 2);
    this.y = Math.floor((height - (rows + extra) * this.scale) / 2);
  }

  // `look`: frames prefix, k from 1, layer, edges, flow, agent, missing, other (film whose answer may differ).
  draw(film, look) {
    this.fit(film);
    const { context } = this, task = film.about.model.task;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(this.scale, 0, 0, this.scale, this.x, this.y);
    const frame = frames(film, look.prefix, look.k);
    if (task === "maze") this.maze(film, frame, look);
    else if (task === "sudoku") this.sudoku(film, frame, look);
    else this.digit(film, frame, look);
    if (look.layer !== "answer") this.heat(film, look);
    if (look.edges) this.lines(film, look, "edges");
    if (look.flow) this.lines(film, look, "flow");
    this.marks(film, look);
  }

  // Cells as one small picture, scaled without smoothing.
  picture(film, paint, opacity = () => 255) {
    const { height, width } = film.about;
    const { small, smallContext } = this;
    if (small.width !== width || small.height !== height || !this.image) {
      [small.width, small.height] = [width, height];
      this.image = smallContext.createImageData(width, height);
    }
    const { data } = this.image;
    for (let i = 0, p = 0; i < width * height; i++, p += 4) {
      const [r, g, b] = paint(i);
      data[p] = r; data[p + 1] = g; data[p + 2] = b; data[p + 3] = opacity(i);
    }
    smallContext.putImageData(this.image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(small, 0, 0, width, height);
  }

  maze(film, { cells, classes, sure }, look) {
    const { wallRgb, openRgb, path } = colours(), dim = look.layer !== "answer";
    // Certainty in 16 steps: colours are computed once per frame, not once per cell.
    const shades = Array.from({ length: 16 }, (_, i) => mix(openRgb, path, 0.35 + 0.65 * (i / 15)));
    this.picture(film, (i) => {
      const cell = cells[i];
      if (cell === WALL) return wallRgb;
      if (cell === START_CELL) return START;
      if (cell === GOAL_CELL) return GOAL;
      return classes[i] === PATH_CELL && !dim ? shades[sure[i] >> 4] : openRgb;
    });
    this.letter(film, cells, START_CELL, "S");
    this.letter(film, cells, GOAL_CELL, "G");
    this.differing(film, classes, look);
  }

  letter(film, cells, token, text) {
    const at = cells.indexOf(token), { context } = this, { width } = film.about;
    if (at < 0 || this.scale < 9) return;
    context.fillStyle = "#fff";
    context.font = "bold 0.8px system-ui, sans-serif";
    context.textAlign = "center"; context.textBaseline = "middle";
    context.fillText(text, (at % width) + 0.5, Math.floor(at / width) + 0.55);
  }

  // Frames where the answer differs from that of the other run.
  differing(film, classes, look) {
    if (!look.other || look.layer !== "answer") return;
    const other = frames(look.other, look.otherPrefix, look.k).classes;
    if (!other || other.length !== classes.length) return;
    const { context } = this, { width } = film.about;
    context.strokeStyle = css(DIFF);
    context.lineWidth = 0.16;
    // Another model may call a wall by another name, which nobody sees; the path is what is shown.
    const shown = (c) => (look.other !== film && film.about.model.task === "maze" ? c === PATH_CELL : c);
    for (let i = 0; i < classes.length; i++) {
      if (shown(classes[i]) !== shown(other[i])) context.strokeRect((i % width) + 0.1, Math.floor(i / width) + 0.1, 0.8, 0.8);
    }
  }

  sudoku(film, { cells, classes, sure, label }, look) {
    const { context } = this, { ink, line, openRgb, path, quiet } = colours();
    context.fillStyle = css(openRgb);
    context.fillRect(0, 0, 9, 9);
    context.textAlign = "center"; context.textBaseline = "middle";
    for (let i = 0; i < 81; i++) {
      const x = i % 9, y = Math.floor(i / 9), given = cells[i] > 0;
      const wrong = !given && label && label[i] !== classes[i];
      if (wrong) { context.fillStyle = css(GOAL, 0.16); context.fillRect(x, y, 1, 1); }
      context.font = `${given ? "650" : "400"} 0.62px system-ui, sans-serif`;
      context.fillStyle = given ? ink : css(path, 0.25 + 0.75 * (sure[i] / 255));
      context.fillText(String(given ? cells[i] : classes[i] || "·"), x + 0.5, y + 0.54);
      if (wrong) { context.fillStyle = css(GOAL); context.fillRect(x + 0.32, y + 0.86, 0.36, 0.05); }
    }
    for (let i = 0; i <= 9; i++) {
      context.strokeStyle = i % 3 ? line : quiet;
      context.lineWidth = i % 3 ? 0.02 : 0.045;
      context.beginPath();
      context.moveTo(i, 0); context.lineTo(i, 9); context.moveTo(0, i); context.lineTo(9, i);
      context.stroke();
    }
    this.differing(film, classes, look);
    if (look.cell != null) {
      context.strokeStyle = colours().accent; context.lineWidth = 0.07;
      context.strokeRect((look.cell % 9) + 0.04, Math.floor(look.cell / 9) + 0.04, 0.92, 0.92);
    }
    this.units(film);
  }

  units(film) {
    const { context } = this, { quiet, line } = colours();
    for (let i = 0; i < 27; i++) {
      const [x, y] = centre(film, i);
      context.strokeStyle = line; context.lineWidth = 0.03;
      context.strokeRect(x - 0.34, y - 0.34, 0.68, 0.68);
      context.fillStyle = quiet;
      context.font = "0.3px system-ui, sans-serif";
      context.fillText("RCB"[Math.floor(i / 9)] + ((i % 9) + 1), x, y + 0.02);
    }
  }

  digit(film, { cells, classes, sure }, look) {
    const { context } = this;
    this.picture(film, (i) => { const v = 18 + cells[i] * 0.9; return [v, v, v]; });
    if (look.layer !== "answer") return;
    context.textAlign = "center"; context.textBaseline = "middle";
    for (let i = 0; i < classes.length; i++) {
      if (look.missing.removed.has(i)) continue;
      const [x, y] = centre(film, i);
      context.globalAlpha = 0.25 + 0.75 * (sure[i] / 255);
      context.fillStyle = CLASS[classes[i] % 10];
      context.font = `700 ${1.3 + 1.2 * (sure[i] / 255)}px system-ui, sans-serif`;
      context.fillText(String(classes[i]), x, y + 0.08);
    }
    context.globalAlpha = 1;
  }

  // A number of every agent, on a logarithmic scale over the whole film.
  heat(film, look) {
    const values = layer(film, look);
    if (!values) return;
    const { context } = this, [low, high] = look.range, maze = film.about.model.task === "maze";
    const size = film.about.patch ? spacing(film) * (maze ? 1 : 0.94) : 0.62, signed = look.layer === "ratio", alpha = film.about.patch && !maze ? 0.8 : 1;
    for (let i = 0; i < values.length; i++) {
      const [x, y] = centre(film, i), v = values[i];
      const t = signed ? 0.5 + v / 4 : (Math.log(Math.max(v, 1e-12)) - low) / (high - low);
      context.fillStyle = css(SCALE[Math.max(0, Math.min(63, Math.round(t * 63)))], alpha);
      context.fillRect(x - size / 2, y - size / 2, size, size);
    }
    if (maze) this.shade(film, frames(film, look.prefix, look.k).cells);
  }

  // Walls as a shade over the numbers of agents, so that these keep their colours.
  shade(film, cells) {
    const { wallRgb } = colours();
    this.picture(film, (i) => ({ [WALL]: wallRgb, [START_CELL]: START, [GOAL_CELL]: GOAL }[cells[i]] ?? wallRgb), (i) => (cells[i] === WALL ? 110 : cells[i] >= START_CELL && cells[i] <= GOAL_CELL ? 255 : 0));
    this.letter(film, cells, START_CELL, "S");
    this.letter(film, cells, GOAL_CELL, "G");
  }

  // Edges in eight widths, so that thousands of lines are eight strokes.
  lines(film, look, name) {
    const all = film[look.prefix + name];
    if (!all) return;
    const { context } = this, { ends } = film, count = ends.length / 4, per = name === "flow" ? 2 : 1;
    const now = all.subarray((look.k - 1) * count * per, look.k * count * per);
    const top = name === "flow" ? look.flowTop : look.edgeTop;
    if (film.about.model.task === "sudoku") { this.dots(film, look, name, now, top); return; }
    const bins = Array.from({ length: 8 }, () => []);
    for (let e = 0; e < count; e++) {
      const value = per === 2 ? Math.max(now[2 * e], now[2 * e + 1]) : now[e];
      const t = Math.sqrt(value / (top || 1));
      if (t > 0.06) bins[Math.min(7, Math.floor(t * 8))].push(e);
    }
    context.lineCap = "round";
    bins.forEach((edges, bin) => {
      if (!edges.length) return;
      context.strokeStyle = name === "flow" ? css([204, 121, 167], 0.25 + bin * 0.1) : css(GOAL, 0.22 + bin * 0.1);
      context.lineWidth = (0.05 + bin * 0.045) * (film.about.patch ? 1 : 0.6);
      context.beginPath();
      for (const e of edges) {
        const [ax, ay] = centre(film, ends[4 * e]), [bx, by] = centre(film, ends[4 * e + 1]);
        if (name === "flow") {
          // Towards the end whose partner said more: the message travels from the louder end.
          const forth = now[2 * e] >= now[2 * e + 1];
          const [sx, sy, tx, ty] = forth ? [ax, ay, bx, by] : [bx, by, ax, ay];
          context.moveTo(sx + (tx - sx) * 0.15, sy + (ty - sy) * 0.15);
          context.lineTo(sx + (tx - sx) * 0.62, sy + (ty - sy) * 0.62);
        } else { context.moveTo(ax, ay); context.lineTo(bx, by); }
      }
      context.stroke();
    });
  }

  // In a Sudoku two units talk about the cell they share. A dot there, for the largest of its three edges; lines would hide the board.
  dots(film, look, name, now, top) {
    const { context } = this, { ends } = film, per = name === "flow" ? 2 : 1, most = new Float32Array(81);
    for (let e = 0; e < ends.length / 4; e++) {
      const [u, v, s] = ends.subarray(4 * e, 4 * e + 3), value = per === 2 ? Math.max(now[2 * e], now[2 * e + 1]) : now[e];
      if (look.agent != null && u !== look.agent && v !== look.agent) continue;
      const cell = unitCell(u, s);
      most[cell] = Math.max(most[cell], value);
    }
    context.fillStyle = css(name === "flow" ? [204, 121, 167] : GOAL, 0.85);
    most.forEach((value, cell) => {
      const size = 0.17 * Math.sqrt(value / (top || 1));
      if (size < 0.01) return;
      context.beginPath();
      context.arc((cell % 9) + (per === 2 ? 0.18 : 0.82), Math.floor(cell / 9) + 0.18, size, 0, 7);
      context.fill();
    });
  }

  marks(film, look) {
    const { context } = this, { removed, cut, pinned } = look.missing, half = film.about.patch ? film.about.patch / 2 : 0.34;
    const box = (i, colour, dash = []) => {
      const [x, y] = centre(film, i);
      context.setLineDash(dash);
      context.strokeStyle = colour;
      context.lineWidth = Math.max(0.12, 2 / this.scale);
      context.strokeRect(x - half, y - half, 2 * half, 2 * half);
      context.setLineDash([]);
    };
    for (const i of removed) {
      const [x, y] = centre(film, i);
      context.strokeStyle = css(GOAL); context.lineWidth = 0.2;
      context.beginPath();
      context.moveTo(x - half * 0.7, y - half * 0.7); context.lineTo(x + half * 0.7, y + half * 0.7);
      context.moveTo(x + half * 0.7, y - half * 0.7); context.lineTo(x - half * 0.7, y + half * 0.7);
      context.stroke();
    }
    for (const i of pinned) box(i, css([204, 121, 167]));
    for (const pair of cut) {
      const [u, v] = pair.split(",").map(Number), [ax, ay] = centre(film, u), [bx, by] = centre(film, v);
      context.strokeStyle = css(GOAL); context.lineWidth = 0.14; context.setLineDash([0.3, 0.25]);
      context.beginPath(); context.moveTo(ax, ay); context.lineTo(bx, by); context.stroke();
      context.setLineDash([]);
    }
    if (look.agent != null && look.agent < film.about.agents) box(look.agent, colours().warm);
    if (look.drag) {
      const [x, y] = centre(film, look.drag.agent);
      context.strokeStyle = css(DIFF); context.lineWidth = 0.25; context.lineCap = "round";
      context.beginPath(); context.moveTo(x, y); context.lineTo(look.drag.x, look.drag.y); context.stroke();
    }
  }

  // Where an event is, in cells.
  place(event) {
    const box = this.canvas.getBoundingClientRect(), ratio = this.canvas.width / box.width;
    return [((event.clientX - box.left) * ratio - this.x) / this.scale, ((event.clientY - box.top) * ratio - this.y) / this.scale];
  }

  agentAt(film, x, y) {
    let best = null, least = film.about.patch ? (film.about.patch * 0.75) ** 2 * 2 : 0.3;
    for (let i = 0; i < film.about.agents; i++) {
      const [cx, cy] = centre(film, i), d = (cx - x) ** 2 + (cy - y) ** 2;
      if (d < least) [best, least] = [i, d];
    }
    return best;
  }

  edgeAt(film, x, y) {
    let best = null, least = 1.2;
    for (let e = 0; e < film.ends.length / 4; e++) {
      const [ax, ay] = centre(film, film.ends[4 * e]), [bx, by] = centre(film, film.ends[4 * e + 1]);
      const [dx, dy] = [bx - ax, by - ay], t = Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy)));
      const d = (ax + t * dx - x) ** 2 + (ay + t * dy - y) ** 2;
      if (d < least) [best, least] = [[film.ends[4 * e], film.ends[4 * e + 1]], d];
    }
    return best;
  }

  cellAt(film, x, y) {
    const { height, width } = film.about, [column, row] = [Math.floor(x), Math.floor(y)];
    return column >= 0 && row >= 0 && column < width && row < height ? row * width + column : null;
  }
}

// The distance between neighbouring agents of a grid.
const spacing = (film) => Math.max(1, Math.abs(film.places[3] - film.places[1]));

// The cell at a place of a unit of a Sudoku: rows, columns, boxes.
function unitCell(unit, place) {
  const i = unit % 9;
  if (unit < 9) return 9 * i + place;
  if (unit < 18) return 9 * place + i;
  return 9 * (3 * Math.floor(i / 3) + Math.floor(place / 3)) + 3 * (i % 3) + (place % 3);
}

// The centre of an agent: grids count from the middle of a cell.
export const centre = (film, i) => [film.places[2 * i + 1] + 0.5, film.places[2 * i] + 0.5];

export function frames(film, prefix, k) {
  const at = (name) => {
    const array = film[prefix + name] ?? film[name], shape = film.shapes[prefix + name] ?? film.shapes[name];
    return array ? array.subarray((k - 1) * shape[1], k * shape[1]) : null;
  };
  const input = (film[prefix + "input"] ?? film.input)[k - 1], size = film.shapes.cells[1];
  return { classes: at("classes"), sure: at("sure"), votes: at("votes"), cells: film.cells.subarray(input * size, (input + 1) * size), label: film[`label${input}`] };
}

// Values of a layer at k.
export function layer(film, look) {
  const n = film.about.agents, at = (name) => film[look.prefix + name]?.subarray((look.k - 1) * n, look.k * n);
  if (look.layer === "ratio") {
    const [primal, dual] = [at("primal"), at("dual")];
    return dual ? primal.map((p, i) => Math.max(-2, Math.min(2, Math.log10((p + 1e-9) / (dual[i] + 1e-9))))) : null;
  }
  if (look.layer === "difference") return film.distances?.subarray((look.k - 1) * n, look.k * n);
  return at({ primal: "primal", dual: "dual", norm: "norm" }[look.layer]);
}
