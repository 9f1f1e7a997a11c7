// The experiment, its history, and the link that contains it. Everything the page shows follows from `experiment`
// and `view`; the server computes the rest.

export const KINDS = ["singles", "full", "minimal", "mixed"];
export const SIZES = [9, 13, 19, 25, 29, 37, 49, 61, 73];

export const experiment = {};
export const view = { k: 1, layer: "answer", agent: null, tool: "inspect", edges: false, flow: false, when: "start" };
const past = [];

export function fresh(task, model, iterations) {
  const input = { maze: { seed: 7, size: 19 }, sudoku: { seed: 5, kind: "singles" }, mnist: { seed: 3 } }[task];
  return { task, model, other: "", input, inputs: [], iterations, interventions: [] };
}

export function load(next) {
  for (const key of Object.keys(experiment)) delete experiment[key];
  Object.assign(experiment, structuredClone(next));
}

// Changes the experiment so that the change can be undone. Changes with the same non-empty `stroke` are one.
let stroke = "";
export function change(make, name = "") {
  if (!name || name !== stroke) past.push(JSON.stringify(experiment));
  if (past.length > 200) past.shift();
  stroke = name;
  make(experiment);
}
export const endStroke = () => { stroke = ""; };
export const canUndo = () => past.length > 0;
export function undo() {
  if (!past.length) return false;
  load(JSON.parse(past.pop()));
  stroke = "";
  return true;
}
export const forget = () => { past.length = 0; };

// The script that `sheaf intervene` takes, for a model with this coordination. Message passing has one state and no penalties.
export function script(coordination) {
  const { task, input, inputs, iterations } = experiment, admm = coordination === "admm";
  const interventions = experiment.interventions.map((one) => translated(one, admm)).filter((one) => one);
  const plain = { task, input, iterations, interventions };
  return inputs.length ? { ...plain, inputs } : plain;
}

const NUMBERS = ["rho", "gamma", "relaxation", "steps"];
function translated(one, admm) {
  const [name, value] = Object.entries(one.do)[0];
  if (!admm && NUMBERS.includes(name)) return null;
  if (!value.of || (value.of === "h") !== admm) return one;
  return { ...one, do: { [name]: { ...value, of: admm ? "z" : "h" } } };
}

const bytes = (text) => new TextEncoder().encode(text);

export function link() {
  const { k, layer, agent, edges, flow } = view;
  const text = JSON.stringify({ e: experiment, v: { k, layer, agent, edges, flow } });
  const code = btoa(Array.from(bytes(text), (b) => String.fromCharCode(b)).join(""));
  const hash = "#" + code.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return location.origin + location.pathname + hash;
}

export function fromLink(hash) {
  if (hash.length < 8) return null;
  try {
    const code = atob(hash.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
    const text = new TextDecoder().decode(Uint8Array.from(code, (c) => c.charCodeAt(0)));
    const { e, v } = JSON.parse(text);
    if (!e || typeof e.task !== "string" || !Array.isArray(e.interventions)) return null;
    return { e: { other: "", inputs: [], ...e }, v: v ?? {} };
  } catch {
    return null;
  }
}

// An intervention in words.
export function words({ do: action }) {
  const [name, value] = Object.entries(action)[0];
  const who = (agents) => (Array.isArray(agents) ? (agents.length === 1 ? `agent ${agents[0]}` : `${agents.length} agents`)
    : agents === "all" ? "all agents" : `${Math.round(agents.share * 100)} % of agents`);
  switch (name) {
    case "noise": return `kick ${value.of} of ${who(value.agents)} by ${value.deviation}`;
    case "set": return `set ${value.of} of ${who(value.agents)}`;
    case "scale": return `scale ${value.of} of ${who(value.agents)} by ${value.by}`;
    case "pin": return `pin ${value.of} of ${who(value.agents)}${value.until ? ` until ${value.until}` : ""}`;
    case "remove": return `remove ${who(value)}`;
    case "restore": return `restore ${who(value)}`;
    case "cut": return `cut ${value.map((pair) => pair.join("–")).join(", ")}`;
    case "join": return `join ${value.map((pair) => pair.join("–")).join(", ")}`;
    case "input": return value === 0 ? "input as at the start" : `input changed (${value})`;
    case "gamma": return `price γ = ${value}`;
    case "rho": return `penalty ρ = ${value}`;
    case "relaxation": return `relaxation α = ${value}`;
    case "steps": return `inner steps T = ${value}`;
    default: return name;
  }
}

// Agents that are removed and pairs that are cut at iteration k.
export function missing(k, e = experiment) {
  const removed = new Set(), cut = new Set(), pinned = new Set();
  for (const one of [...e.interventions].sort((a, b) => a.k - b.k)) {
    if (one.k > k) continue;
    const [name, value] = Object.entries(one.do)[0];
    if (name === "remove" && Array.isArray(value)) value.forEach((i) => removed.add(i));
    if (name === "restore" && Array.isArray(value)) value.forEach((i) => removed.delete(i));
    if (name === "cut") value.forEach((pair) => cut.add(pair.toSorted((a, b) => a - b).join()));
    if (name === "join") value.forEach((pair) => cut.delete(pair.toSorted((a, b) => a - b).join()));
    if (name === "pin" && Array.isArray(value.agents) && !(value.until <= k)) value.agents.forEach((i) => pinned.add(i));
  }
  return { removed, cut, pinned };
}
