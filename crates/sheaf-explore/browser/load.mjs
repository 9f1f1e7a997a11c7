// Load on loopback: page requests and solves at fixed rates. Usage: node load.mjs SHEAF [SECONDS [PAGES [SOLVES]]]
//
// Rates are those of an open loop: a request is sent when it is due, whether or not earlier ones were answered.

import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { start } from "./drive.mjs";

const [program, seconds = "60", pages = "1000", solves = "200"] = process.argv.slice(2);
if (!program) throw new Error("usage: node load.mjs SHEAF [SECONDS [PAGES [SOLVES]]]");
const server = await start(program), url = new URL(server.url);
const agent = new Agent({ keepAlive: true, maxSockets: 64 });
const memory = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))[1]) / 1024;
const cpu = () => { const f = readFileSync(`/proc/${server.pid}/stat`, "utf8").split(") ")[1].split(" "); return (Number(f[11]) + Number(f[12])) / 100; };

const body = JSON.stringify({ model: "builtin:maze", script: { task: "maze", input: { seed: 7, size: 19 }, iterations: 20 } });
const kinds = {
  page: { rate: Number(pages), options: { path: "/main.js" } },
  solve: { rate: Number(solves), options: { path: "/api/solve", method: "POST", headers: { "X-Sheaf": "1", "Content-Type": "application/json" } }, body },
};

function send(kind) {
  const began = performance.now();
  kind.sent++;
  const outgoing = request({ host: url.hostname, port: url.port, agent, ...kind.options }, (answer) => {
    answer.on("data", () => {});
    answer.on("end", () => { if (answer.statusCode === 200) kind.times.push(performance.now() - began); else kind.errors++; });
  });
  outgoing.on("error", () => { kind.errors++; });
  outgoing.end(kind.body);
}

for (const kind of Object.values(kinds)) Object.assign(kind, { sent: 0, errors: 0, times: [] });
send(kinds.solve);
await new Promise((resolve) => setTimeout(resolve, 1000));
for (const kind of Object.values(kinds)) Object.assign(kind, { sent: 0, errors: 0, times: [] });
const samples = [memory()], began = performance.now(), cpuBegan = cpu(), limit = Number(seconds) * 1000;
while (performance.now() - began < limit) {
  const now = (performance.now() - began) / 1000;
  for (const kind of Object.values(kinds)) for (const due = Math.floor(now * kind.rate); kind.sent < due;) send(kind);
  if (samples.length <= now / 5) samples.push(memory());
  await new Promise((resolve) => setTimeout(resolve, 2));
}
const deadline = performance.now() + 30000;
const open = () => Object.values(kinds).some((kind) => kind.times.length + kind.errors < kind.sent);
while (open() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
const took = (performance.now() - began) / 1000;
for (const [name, { sent, errors, times }] of Object.entries(kinds)) {
  times.sort((a, b) => a - b);
  const at = (part) => times[Math.min(times.length - 1, Math.floor(part * times.length))]?.toFixed(1);
  console.log(`${name}: ${sent} sent, ${times.length} answered (${(times.length / took).toFixed(0)} a second), ${errors} errors; median ${at(0.5)} ms, 99 % ${at(0.99)} ms`);
}
samples.push(memory());
console.log(`memory of the server, MB: ${samples.map((mb) => mb.toFixed(0)).join(" ")}; CPU ${(cpu() - cpuBegan).toFixed(1)} s in ${took.toFixed(1)} s`);
server.stop();
const failed = Object.values(kinds).some((kind) => kind.errors || kind.times.length < kind.sent);
process.exit(failed ? 1 : 0);
