// Files for the user: the script, a picture of the boards, the curves as a table.

import { experiment, script } from "./state.js";

function save(name, blob) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function saveScript(coordination) {
  const text = JSON.stringify(script(coordination), null, 2) + "\n";
  save(`${experiment.task}-experiment.json`, new Blob([text], { type: "application/json" }));
}

export function savePicture(canvases, background) {
  const width = canvases.reduce((sum, c) => sum + c.width + 16, 16), height = Math.max(...canvases.map((c) => c.height)) + 32;
  const whole = Object.assign(document.createElement("canvas"), { width, height }), context = whole.getContext("2d");
  context.fillStyle = background;
  context.fillRect(0, 0, width, height);
  let x = 16;
  for (const canvas of canvases) { context.drawImage(canvas, x, 16); x += canvas.width + 16; }
  whole.toBlob((blob) => save(`${experiment.task}.png`, blob));
}

export function saveData(film) {
  const { distance, differing } = film.about.comparison ?? {}, total = film.shapes.curves[0];
  const rows = [["k", "primal", "dual", "disagreement", "right", ...(distance ? ["distance", "cells_differing"] : [])].join(",")];
  for (let i = 0; i < total; i++) {
    const row = [i + 1, film.curves[3 * i], film.curves[3 * i + 1], film.curves[3 * i + 2], film.right[i]];
    if (distance) row.push(distance[i], differing[i]);
    rows.push(row.join(","));
  }
  save(`${experiment.task}.csv`, new Blob([rows.join("\n") + "\n"], { type: "text/csv" }));
}
