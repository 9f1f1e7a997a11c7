// Curves over iterations, and small charts of an agent.

import { SIGNED, colours, css } from "./colours.js";

export function fitCanvas(canvas, height = canvas.clientHeight) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
  [canvas.width, canvas.height] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [context, width, height];
}

const CURVES = [["primal ‖x − z‖", null, []], ["dual ρ‖Δz‖", "#e69f00", [5, 3]], ["disagreement ‖Fz‖", "#009e73", [2, 2]]];

// Residual curves of a film on a logarithmic scale, the distance to the other run, marks of interventions.
export function curves(canvas, film, { k, marks, distance }) {
  const [context, width, height] = fitCanvas(canvas);
  const { ink, quiet, line, warm } = colours(), total = film.shapes.curves[0], admm = film.about.model.coordination === "admm";
  const left = 4, right = width - 4, top = 16, bottom = height - 4;
  const x = (i) => left + ((right - left) * i) / Math.max(1, total - 1);
  const series = CURVES.slice(0, admm ? 3 : 1).map(([name, colour, dash], c) => ({ name: admm ? name : "movement of states", colour: colour ?? css(colours().path), dash, at: (i) => film.curves[3 * i + c] }));
  if (distance) series.push({ name: "distance to the undisturbed run", colour: "#d55e00", dash: [], at: (i) => distance[i] });
  let low = Infinity, high = -Infinity;
  for (const { at } of series) for (let i = 0; i < total; i++) { const v = at(i); if (v > 1e-7) { low = Math.min(low, v); high = Math.max(high, v); } }
  if (!(low < high)) [low, high] = [1e-3, 1];
  low = Math.max(low, high * 1e-5);
  const y = (v) => bottom - ((bottom - top) * Math.log(Math.max(v, low) / low)) / Math.log(high / low);
  context.strokeStyle = line; context.lineWidth = 1;
  context.font = "11px system-ui, sans-serif"; context.fillStyle = quiet; context.textBaseline = "middle";
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power++) {
    const at = y(10 ** power);
    context.beginPath(); context.moveTo(left, at); context.lineTo(right, at); context.stroke();
    if (power % Math.ceil(Math.log10(high / low) / 3) === 0) context.textAlign = "right", context.fillText(`10${superscript(power)}`, right - 2, at - 6);
  }
  for (const mark of marks) {
    context.fillStyle = warm;
    context.beginPath(); context.moveTo(x(mark - 1) - 4, top - 2); context.lineTo(x(mark - 1) + 4, top - 2); context.lineTo(x(mark - 1), top + 5); context.fill();
  }
  for (const { colour, dash, at } of series) {
    context.strokeStyle = colour; context.lineWidth = 1.6; context.setLineDash(dash);
    context.beginPath();
    for (let i = 0; i < total; i++) { const v = at(i); if (i) context.lineTo(x(i), y(v)); else context.moveTo(x(i), y(v)); }
    context.stroke();
  }
  context.setLineDash([]);
  let at = left;
  context.textAlign = "left"; context.textBaseline = "top";
  for (const { name, colour, dash } of series) {
    context.strokeStyle = colour; context.lineWidth = 2; context.setLineDash(dash);
    context.beginPath(); context.moveTo(at, 6); context.lineTo(at + 18, 6); context.stroke(); context.setLineDash([]);
    context.fillStyle = ink; context.fillText(name, at + 23, 0);
    at += 37 + context.measureText(name).width;
  }
  context.strokeStyle = ink; context.lineWidth = 1;
  context.beginPath(); context.moveTo(x(k - 1), top - 2); context.lineTo(x(k - 1), bottom); context.stroke();
}

export const curveIteration = (canvas, event, total) => {
  const box = canvas.getBoundingClientRect();
  return Math.max(1, Math.min(total, 1 + Math.round(((event.clientX - box.left - 4) / (box.width - 8)) * (total - 1))));
};

const superscript = (n) => String(n).replace(/./g, (c) => ({ "-": "⁻" }[c] ?? "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));

// A matrix as an image, signed colours, one pixel a number.
export function matrix(canvas, values, rows, columns, cellHeight) {
  const image = new ImageData(columns, rows);
  // A few outliers must not make everything else pale.
  const sizes = Float32Array.from(values, Math.abs).sort(), top = Math.max(1e-9, sizes[Math.floor((sizes.length - 1) * 0.985)]);
  for (let i = 0; i < rows * columns; i++) {
    const colour = SIGNED[Math.round(32 + 32 * Math.max(-1, Math.min(1, values[i] / top)))];
    image.data.set([...colour, 255], 4 * i);
  }
  [canvas.width, canvas.height] = [columns, rows];
  canvas.getContext("2d").putImageData(image, 0, 0);
  canvas.style.imageRendering = "pixelated";
  if (cellHeight) canvas.style.height = `${cellHeight}px`;
}

// Small multiples: x, z and u of some coordinates over time.
export function multiples(canvas, film, prefix, coordinates, k, d) {
  const columns = 5, rows = Math.ceil(coordinates.length / columns);
  const [context, width] = fitCanvas(canvas, rows * 46);
  canvas.style.height = `${rows * 46}px`;
  const { quiet, line, ink } = colours(), cell = width / columns;
  const names = ["x", "z", "u"].filter((name) => film[prefix + name]), shades = { x: css(colours().path), z: "#009e73", u: "#d55e00" };
  const total = film.shapes[prefix + "x"][0];
  let low = 0, high = 0;
  for (const name of names) for (let i = 0; i < total; i++) for (const c of coordinates) { const v = film[prefix + name][i * d + c]; low = Math.min(low, v); high = Math.max(high, v); }
  coordinates.forEach((c, n) => {
    const left = (n % columns) * cell, top = Math.floor(n / columns) * 46;
    const x = (i) => left + 3 + ((cell - 8) * i) / Math.max(1, total - 1), y = (v) => top + 40 - (36 * (v - low)) / (high - low || 1);
    context.strokeStyle = line; context.lineWidth = 1;
    context.beginPath(); context.moveTo(x(0), y(0)); context.lineTo(x(total - 1), y(0)); context.stroke();
    for (const name of names) {
      context.strokeStyle = shades[name]; context.lineWidth = 1.2;
      context.beginPath();
      for (let i = 0; i < total; i++) { const v = y(film[prefix + name][i * d + c]); if (i) context.lineTo(x(i), v); else context.moveTo(x(i), v); }
      context.stroke();
    }
    context.strokeStyle = css([120, 120, 130], 0.7);
    context.beginPath(); context.moveTo(x(k - 1), top + 3); context.lineTo(x(k - 1), top + 41); context.stroke();
    context.fillStyle = quiet; context.font = "10px system-ui, sans-serif"; context.textBaseline = "top"; context.textAlign = "left";
    context.fillText(String(c), left + 4, top + 1);
  });
  context.fillStyle = ink;
}

// The paths of x and z in the plane of two coordinates.
export function plane(canvas, film, prefix, [a, b], k, d) {
  const [context, width, height] = fitCanvas(canvas, 150);
  canvas.style.height = "150px";
  const { line, quiet } = colours(), total = film.shapes[prefix + "x"][0], names = ["x", "z"].filter((name) => film[prefix + name]);
  const all = [[], []];
  for (const name of names) for (let i = 0; i < total; i++) { all[0].push(film[prefix + name][i * d + a]); all[1].push(film[prefix + name][i * d + b]); }
  const [ax, bx, ay, by] = [Math.min(...all[0]), Math.max(...all[0]), Math.min(...all[1]), Math.max(...all[1])];
  const x = (v) => 10 + ((width - 20) * (v - ax)) / (bx - ax || 1), y = (v) => height - 12 - ((height - 24) * (v - ay)) / (by - ay || 1);
  context.strokeStyle = line; context.strokeRect(0.5, 0.5, width - 1, height - 1);
  for (const [name, colour] of [["z", "#009e73"], ["x", css(colours().path)]]) {
    const values = film[prefix + name];
    if (!values) continue;
    context.strokeStyle = colour; context.fillStyle = colour; context.lineWidth = 1.3;
    context.beginPath();
    for (let i = 0; i < total; i++) { const [u, v] = [x(values[i * d + a]), y(values[i * d + b])]; if (i) context.lineTo(u, v); else context.moveTo(u, v); }
    context.stroke();
    context.beginPath(); context.arc(x(values[(k - 1) * d + a]), y(values[(k - 1) * d + b]), 4, 0, 7); context.fill();
  }
  context.fillStyle = quiet; context.font = "10px system-ui, sans-serif"; context.textAlign = "left"; context.textBaseline = "bottom";
  context.fillText(`coordinate ${a} →, ${b} ↑`, 6, height - 2);
}
