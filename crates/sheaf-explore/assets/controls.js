// Parts of the side bar: choices, sliders, the list of interventions.

import { next } from "./edit.js";
import { change, experiment, words } from "./state.js";

const $ = (id) => document.getElementById(id);

export function options(select, list, value, shown) {
  select.hidden = !shown;
  const key = JSON.stringify(list);
  if (select.dataset.key !== key) {
    select.replaceChildren(...list.map(([v, text]) => new Option(text, v)));
    select.dataset.key = key;
  }
  if (![...select.options].some((o) => o.value === String(value))) select.append(new Option(String(value), value));
  select.value = value;
}

export function chips(box, list, value, pick) {
  const key = JSON.stringify(list.map(([name]) => name));
  if (box.dataset.key !== key) {
    box.replaceChildren(...list.map(([name, text, title]) => Object.assign(document.createElement("button"), { textContent: text, title: title ?? "", value: name })));
    box.querySelectorAll("button").forEach((b) => b.setAttribute("role", "radio"));
    box.dataset.key = key;
  }
  box.querySelectorAll("button").forEach((b) => {
    b.setAttribute("aria-checked", String(b.value === value));
    b.onclick = () => pick(b.value);
  });
}

// A slider per number of the solver; letting go adds an intervention from the next iteration on.
export function settings(own, changed) {
  const admm = own.coordination === "admm";
  const box = $("settings"), knobs = [];
  $("knobs").hidden = !admm && experiment.task !== "mnist";
  if (admm) {
    knobs.push(["rho", "penalty ρ", own.rho, true], ["relaxation", "relaxation α", own.relaxation, false]);
    if (own.gamma != null) knobs.push(["gamma", "price γ", own.gamma, true]);
    if (own.steps != null) knobs.push(["steps", "inner steps T", own.steps, "whole"]);
  }
  if (experiment.task === "mnist") knobs.push(["noise", "noise", 0, "input"], ["pad", "padding", 0, "input"]);
  const key = `${own.name} ${experiment.task}`;
  if (box.dataset.key !== key) {
    box.dataset.key = key;
    box.replaceChildren(...knobs.map(([name, text, value, kind]) => knob(name, text, value, kind, changed)));
  }
  for (const [name, , value, kind] of knobs) {
    const last = experiment.interventions.filter((one) => one.do[name] != null && one.k <= next()).at(-1);
    showKnob(name, kind === "input" ? experiment.input[name] ?? 0 : last ? last.do[name] : value, value, kind);
  }
}

const toSlider = (v, base, kind) => (kind === true ? Math.log10(v / base) * 50 : kind === "whole" ? v : v * 100);
const fromSlider = (s, base, kind) => (kind === true ? Number((base * 10 ** (s / 50)).toPrecision(3)) : kind === "whole" ? Math.round(s) : s / 100);

function knob(name, text, base, kind, changed) {
  const row = Object.assign(document.createElement("div"), { className: "knob" });
  const ends = { rho: [-75, 75], gamma: [-75, 75], relaxation: [10, 195], steps: [1, 30], noise: [0, 50], pad: [0, 16] }[name];
  const slider = Object.assign(document.createElement("input"), { type: "range", min: ends[0], max: ends[1], id: `knob-${name}` });
  if (name === "pad") kind = "whole";
  const out = Object.assign(document.createElement("output"), { id: `out-${name}` });
  slider.oninput = () => { out.textContent = fromSlider(Number(slider.value), base, kind); };
  slider.onchange = () => {
    const value = fromSlider(Number(slider.value), base, kind);
    if (name === "noise" || name === "pad") change((e) => { if (value) e.input = { ...e.input, [name]: value }; else delete e.input[name]; });
    else change((e) => {
      e.interventions = e.interventions.filter((one) => !(one.k === next() && one.do[name] != null));
      e.interventions.push({ k: next(), do: { [name]: value } });
    });
    changed();
  };
  row.append(Object.assign(document.createElement("label"), { htmlFor: slider.id, textContent: text }), slider, out);
  return row;
}

function showKnob(name, value, base, kind) {
  const slider = $(`knob-${name}`);
  if (!slider || document.activeElement === slider) return;
  slider.value = toSlider(value, base, name === "pad" ? "whole" : kind);
  $(`out-${name}`).textContent = Number(Number(value).toPrecision(3));
}

export function interventions(seek, changed) {
  const list = experiment.interventions.map((one, i) => [one, i]).sort((a, b) => a[0].k - b[0].k);
  $("list").replaceChildren(...list.map(([one, i]) => {
    const item = document.createElement("li"), text = words(one);
    const go = Object.assign(document.createElement("button"), { className: "k", textContent: `k ${one.k}`, title: "Go there", onclick: () => seek(one.k) });
    const drop = Object.assign(document.createElement("button"), { textContent: "×", title: `Remove: ${text}` });
    drop.setAttribute("aria-label", `Remove: ${text}`);
    drop.onclick = () => { change((e) => e.interventions.splice(i, 1)); changed(); };
    item.append(go, Object.assign(document.createElement("span"), { textContent: text }), drop);
    return item;
  }));
  $("list-empty").hidden = list.length > 0;
  $("count").textContent = list.length ? String(list.length) : "";
}
