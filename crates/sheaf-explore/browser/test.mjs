// The page in a real browser. Usage: node test.mjs SHEAF [PICTURES [TESTS]]
//
// SHEAF is the program; PICTURES a folder for screenshots; TESTS a part of the names of the tests to run. CHROMIUM names the browser if it is not /usr/bin/chromium.

import { execFileSync } from "node:child_process";
import { strict as assert } from "node:assert";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { agentAt, choose, launch, settled, start } from "./drive.mjs";

const [program, pictures, only = ""] = process.argv.slice(2);
if (!program) throw new Error("usage: node test.mjs SHEAF [PICTURES [TESTS]]");
if (pictures) mkdirSync(pictures, { recursive: true });

const server = await start(program), { url } = server;
assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/$/);

const browser = await launch();
const problems = [];
let failures = 0;

// A page that records everything that must not happen: errors, and requests to elsewhere.
async function open(hash = "", options = {}, base = url) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 }, ...options });
  const page = await context.newPage();
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) problems.push(message.text()); });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => { if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(base)) problems.push(`a request to ${request.url()}`); });
  await page.goto(base + hash);
  await settled(page);
  return page;
}

const state = (page, what) => page.evaluate(what);
const picture = async (page, name) => { if (pictures) await page.screenshot({ path: `${pictures}/${name}.png` }); };
const pixel = (page, place) => page.evaluate(({ x, y }) => {
  const canvas = document.querySelector("#right canvas"), box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
  // A copy, so that reading does not change how the page's canvas is drawn.
  const copy = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }), context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, -Math.round((x - box.left) * ratio), -Math.round((y - box.top) * ratio));
  return Array.from(context.getImageData(0, 0, 1, 1).data.subarray(0, 3));
}, place);

const near = (a, b, far = 12) => a.every((v, i) => Math.abs(v - b[i]) <= far);

async function test(name, run) {
  if (!name.includes(only)) return;
  const began = Date.now();
  problems.length = 0;
  try {
    await run();
    assert.deepEqual(problems, [], "errors in the console, or requests to elsewhere");
    console.log(`ok    ${name} (${Date.now() - began} ms)`);
  } catch (error) {
    failures++;
    console.error(`FAIL  ${name}\n${error.stack}`);
  }
}

await test("a maze is solved, and its path is drawn", async () => {
  const page = await open("", { colorScheme: "light" });
  await page.evaluate(() => { window.sheaf.view.k = 1e9; });
  await page.press("body", "End");
  await settled(page);
  assert.equal(await state(page, () => window.sheaf.all.film.right.at(-1)), 1);
  assert.match(await page.textContent("#verdict"), /solved: the shortest path/);
  const cell = await state(page, () => { const { film } = window.sheaf.all; const last = film.classes.subarray(-361); const at = last.indexOf(5); return [Math.floor(at / 19), at % 19]; });
  const start = await state(page, () => { const at = window.sheaf.all.film.cells.indexOf(1); return [Math.floor(at / 19), at % 19]; });
  assert.ok(near(await pixel(page, await agentAt(page, cell)), [0, 114, 178], 60), "a path cell is blue");
  assert.ok(near(await pixel(page, await agentAt(page, start)), [42, 47, 61]), "a wall is dark");
  await picture(page, "maze");
  await page.context().close();
});

await test("scrubbing, stepping and playing move through the iterations", async () => {
  const page = await open();
  await page.fill("#scrub", "30");
  assert.equal(await state(page, () => window.sheaf.view.k), 30);
  await page.click("#forth");
  await page.press("body", "ArrowLeft");
  await page.press("body", "ArrowLeft");
  assert.equal(await state(page, () => window.sheaf.view.k), 29);
  const box = await page.locator("#curves").boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  assert.ok(Math.abs(await state(page, () => window.sheaf.view.k) - 50) <= 1);
  await page.click("#play");
  await page.waitForFunction(() => window.sheaf.view.k > 60);
  await page.click("#play");
  assert.match(await page.textContent("#where"), /k = \d+ \/ 100/);
  await page.context().close();
});

await test("a click on an agent shows its problem, its states and its neighbours", async () => {
  const page = await open("", { colorScheme: "light" });
  await page.fill("#scrub", "40");
  const place = await agentAt(page, 40);
  await page.mouse.click(place.x, place.y);
  await page.waitForFunction(() => window.sheaf.all.film.about.agent === 40);
  await settled(page);
  const text = await page.textContent("#agent");
  for (const word of ["Agent 40", "Its local problem", "upper bound", "Restriction maps", "Neighbours"]) assert.ok(text.includes(word), word);
  assert.equal(await page.locator("#agent .neigh").count(), 8);
  assert.equal(await page.locator("#agent .maps canvas").count(), 8);
  await page.click("#edges");
  await picture(page, "agent");
  await page.press("#right canvas", "ArrowRight");
  await page.waitForFunction(() => window.sheaf.all.film.about.agent === 41);
  await page.press("body", "Escape");
  await page.waitForFunction(() => document.getElementById("agent").hidden);
  await page.context().close();
});

await test("a wall that is painted changes the maze and can be undone", async () => {
  const page = await open();
  const open_cell = await state(page, () => { const at = window.sheaf.all.film.cells.indexOf(2); return [Math.floor(at / 19), at % 19]; });
  const count = () => state(page, () => window.sheaf.all.film.cells.reduce((n, t) => n + (t === 1), 0));
  const before = await count();
  await choose(page, "tools", "wall");
  const place = await agentAt(page, open_cell);
  await page.mouse.click(place.x, place.y);
  await page.waitForFunction((n) => window.sheaf.all.film.cells.reduce((s, t) => s + (t === 1), 0) === n, before + 1);
  await page.press("body", "Control+z");
  await page.waitForFunction((n) => window.sheaf.all.film.cells.reduce((s, t) => s + (t === 1), 0) === n, before);
  await page.context().close();
});

await test("a kick shows both runs side by side, and undo takes it back", async () => {
  const page = await open("", { colorScheme: "light" });
  await page.fill("#scrub", "50");
  await choose(page, "tools", "kick");
  const place = await agentAt(page, 40);
  await page.mouse.move(place.x, place.y);
  await page.mouse.down();
  await page.mouse.move(place.x + 90, place.y + 40, { steps: 5 });
  await page.mouse.up();
  await page.waitForFunction(() => window.sheaf.all.film.base_classes);
  await settled(page);
  assert.equal(await page.locator("#list li").count(), 1);
  assert.ok(await page.isVisible("#left"));
  assert.ok(await state(page, () => window.sheaf.all.film.about.comparison.distance[50] > 0.01));
  assert.equal(await state(page, () => window.sheaf.all.film.about.comparison.distance[48]), 0);
  await page.fill("#scrub", "53");
  await picture(page, "kick");
  await choose(page, "layers", "difference");
  await picture(page, "difference");
  await page.click("#undo");
  await page.waitForFunction(() => !window.sheaf.all.film.base_classes);
  assert.ok(await page.isHidden("#left"));
  await page.context().close();
});

await test("the goal moves while the agents negotiate, and the path follows", async () => {
  const page = await open("", { colorScheme: "dark" });
  await page.fill("#scrub", "40");
  await choose(page, "tools", "goal");
  await page.click('input[name="when"][value="now"]');
  const cell = await state(page, () => {
    const { film } = window.sheaf.all, goal = film.cells.indexOf(4);
    for (let row = 17; row > 0; row -= 2) for (let column = 1; column < 19; column += 2) { const at = row * 19 + column; if (film.cells[at] === 2 && Math.abs(at - goal) > 60) return [row, column]; }
  });
  const place = await agentAt(page, cell);
  await page.mouse.click(place.x, place.y);
  await page.waitForFunction(() => window.sheaf.experiment.inputs.length === 1 && window.sheaf.all.film.shapes.cells[0] === 2);
  await settled(page);
  const film = await state(page, () => ({ inputs: Array.from(window.sheaf.all.film.input), right: window.sheaf.all.film.right.at(-1) }));
  assert.deepEqual([film.inputs[39], film.inputs[40]], [0, 1]);
  assert.equal(film.right, 1, "the new path is found");
  await page.press("body", "End");
  await picture(page, "goal");
  await page.context().close();
});

await test("agents are removed, edges cut, numbers changed, pins set", async () => {
  const page = await open();
  await page.fill("#scrub", "20");
  for (const [tool, agent] of [["remove", 30], ["pin", 50]]) {
    await choose(page, "tools", tool);
    const place = await agentAt(page, agent);
    await page.mouse.click(place.x, place.y);
    await settled(page);
  }
  await choose(page, "tools", "cut");
  const [a, b] = [await agentAt(page, 10), await agentAt(page, 11)];
  await page.mouse.click((a.x + b.x) / 2, (a.y + b.y) / 2);
  await settled(page);
  await page.fill("#knob-gamma", "-30");
  await page.waitForFunction(() => window.sheaf.experiment.interventions.length === 4);
  await settled(page);
  const names = await state(page, () => window.sheaf.experiment.interventions.map((one) => Object.keys(one.do)[0]));
  assert.deepEqual(names, ["remove", "pin", "cut", "gamma"]);
  assert.deepEqual(await state(page, () => window.sheaf.experiment.interventions.map((one) => one.k)), [21, 21, 21, 21]);
  await page.click("#reset");
  await page.waitForFunction(() => window.sheaf.experiment.interventions.length === 0 && !window.sheaf.all.film.base_classes);
  await page.context().close();
});

await test("a link contains the whole experiment", async () => {
  const page = await open();
  await page.evaluate(() => { window.sheaf.experiment.interventions.push({ k: 25, do: { scale: { of: "u", agents: "all", by: 0 } } }); });
  await page.fill("#scrub", "33");
  await page.click("#share");
  const hash = await page.evaluate(() => location.hash);
  await page.context().close();
  const other = await open(hash);
  assert.equal(await state(other, () => window.sheaf.view.k), 33);
  assert.match(await other.textContent("#list"), /scale u of all agents by 0/);
  assert.ok(await state(other, () => window.sheaf.all.film.about.comparison.distance[24] > 0));
  await other.context().close();
});

await test("a Sudoku is solved, and a digit can be typed", async () => {
  const page = await open("", { colorScheme: "light" });
  await page.click('#tasks button[data-task="sudoku"]');
  await page.waitForFunction(() => window.sheaf.all.film.about.model.task === "sudoku");
  await page.press("body", "End");
  await settled(page);
  assert.equal(await state(page, () => window.sheaf.all.film.right.at(-1)), 1);
  const place = await agentAt(page, 4);
  await page.mouse.click(place.x, place.y);
  await page.waitForFunction(() => window.sheaf.all.film.about.agent === 4);
  await settled(page);
  await picture(page, "sudoku");
  const blank = await state(page, () => window.sheaf.all.film.cells.indexOf(0));
  await choose(page, "tools", "digit");
  const cell = await agentAt(page, [Math.floor(blank / 9), blank % 9]);
  await page.mouse.click(cell.x, cell.y);
  await page.keyboard.press("7");
  await page.waitForFunction((at) => window.sheaf.all.film.cells[at] === 7, blank);
  await page.context().close();
});

await test("a digit is recognised, and another one can be drawn", async () => {
  const page = await open("", { colorScheme: "dark" });
  await page.click('#tasks button[data-task="mnist"]');
  await page.waitForFunction(() => window.sheaf.all.film.about.model.task === "mnist");
  await page.press("body", "End");
  await settled(page);
  assert.match(await page.textContent("#verdict"), /a 3, with/);
  await picture(page, "digit");
  await choose(page, "tools", "pen");
  const [from, to] = [await agentAt(page, [4, 22]), await agentAt(page, [24, 22])];
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(to.x, to.y, { steps: 12 });
  await page.mouse.up();
  await page.waitForFunction(() => window.sheaf.experiment.input.pixels && window.sheaf.all.film.cells[14 * 28 + 22] > 200);
  await page.context().close();
});

await test("two models are compared on the same sample, and interventions reach both", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sheaf-")), small = ["train.steps=2", "train.batch=8", "data.count=16", "data.test_count=4", "data.validation_count=4", "iterations.train=4"];
  let second;
  try {
    const experiment = new URL("../../../experiments/maze-mpnn-cm-max.toml", import.meta.url).pathname;
    execFileSync(program, ["train", experiment, "--out", join(folder, "messages"), ...small.flatMap((key) => ["--set", key])], { stdio: "pipe" });
    second = await start(program, "--weights", "builtin:maze", "--weights", join(folder, "messages", "final.safetensors"));
    const page = await open("", { colorScheme: "light" }, second.url);
    await page.selectOption("#other", "messages/final.safetensors");
    await page.waitForFunction(() => window.sheaf.all.other);
    await page.fill("#scrub", "30");
    await settled(page);
    assert.match(await page.textContent("#left-title"), /messages\/final.safetensors \(message passing\) . not solved at k = 30/);
    assert.match(await page.textContent("#right-title"), /builtin:maze . solved at k = 30/);
    await choose(page, "tools", "pin");
    const place = await agentAt(page, 40);
    await page.mouse.click(place.x, place.y);
    await page.waitForFunction(() => window.sheaf.all.film.base_classes);
    await settled(page);
    await picture(page, "compare");
    // The other model alone: the same script, with the state that it has.
    await page.selectOption("#models", "messages/final.safetensors");
    await page.waitForFunction(() => window.sheaf.all.film.about.model.coordination === "message-passing");
    await settled(page);
    assert.ok(await state(page, () => window.sheaf.all.film.about.comparison.distance[40] > 0));
    assert.equal(await state(page, () => window.sheaf.all.film.about.comparison.distance[28]), 0);
    await choose(page, "tools", "inspect");
    await page.mouse.click(place.x, place.y);
    await page.waitForFunction(() => window.sheaf.all.film.about.agent === 40);
    await settled(page);
    await picture(page, "messages");
    await page.context().close();
  } finally {
    second?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

// Times are printed, not judged: they depend on the profile of the build and on what else runs. A page that draws from
// anything but typed arrays falls below five pictures a second anywhere.
await test("a large maze is solved and scrubbed", async () => {
  const page = await open();
  const took = await page.evaluate(async () => {
    const select = document.getElementById("size"), began = performance.now();
    select.value = "73";
    select.dispatchEvent(new Event("change"));
    while (!(window.sheaf.all.film.about.agents === 1296 && !window.sheaf.all.dirty)) await new Promise(requestAnimationFrame);
    return performance.now() - began;
  });
  const fps = await page.evaluate(async () => {
    window.sheaf.view.edges = true;
    const before = window.sheaf.frames, began = performance.now();
    for (let k = 1; k <= 100; k++) { const scrub = document.getElementById("scrub"); scrub.value = k; scrub.dispatchEvent(new Event("input")); await new Promise(requestAnimationFrame); }
    return ((window.sheaf.frames - before) * 1000) / (performance.now() - began);
  });
  console.log(`      73 × 73: first answer after ${took.toFixed(0)} ms, ${fps.toFixed(0)} pictures a second while scrubbing with edges`);
  await picture(page, "large");
  assert.ok(fps > 5, `${fps} pictures a second`);
  const small = await page.evaluate(async () => {
    const select = document.getElementById("size"), began = performance.now();
    select.value = "19";
    select.dispatchEvent(new Event("change"));
    while (!(window.sheaf.all.film.about.agents === 81 && !window.sheaf.all.dirty)) await new Promise(requestAnimationFrame);
    return performance.now() - began;
  });
  console.log(`      19 × 19: answer after ${small.toFixed(0)} ms`);
  await page.context().close();
});

await test("a mistake is told, and the page goes on", async () => {
  const page = await open();
  await page.evaluate(() => { window.sheaf.experiment.input = { text: "###\n#S#\n###" }; document.getElementById("iterations").dispatchEvent(new Event("change")); });
  await page.waitForFunction(() => document.getElementById("toast").classList.contains("bad"));
  assert.match(await page.textContent("#toast"), /one goal/);
  assert.equal(problems.filter((text) => text.includes("400")).length, 1);
  problems.length = 0;
  await page.click("#fresh");
  await settled(page);
  await page.context().close();
});

await test("a phone's width is usable", async () => {
  const page = await open("", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `the page is ${wide} pixels wide`);
  await page.tap("#play");
  await page.waitForFunction(() => window.sheaf.view.k > 5);
  await page.tap("#play");
  await picture(page, "phone");
  await page.context().close();
});

await test("a file without a kind, and a request from elsewhere, are refused", async () => {
  const body = JSON.stringify({ model: "builtin:maze", script: { task: "maze" } });
  const post = (headers, text = body) => fetch(url + "api/solve", { method: "POST", headers, body: text });
  assert.equal((await post({ "X-Sheaf": "1" })).status, 200);
  assert.equal((await post({})).status, 403);
  assert.equal((await post({ "X-Sheaf": "1", Origin: "http://evil.example" })).status, 403);
  assert.equal((await post({ "X-Sheaf": "1" }, "x".repeat(2 << 20))).status, 413);
  const wrong = await post({ "X-Sheaf": "1" }, "{}");
  assert.equal(wrong.status, 400);
  assert.ok((await wrong.json()).error.hint);
  assert.equal((await fetch(url + "../Cargo.toml")).status, 404);
});

await browser.close();
server.stop();
console.log(failures ? `${failures} failed` : "all passed");
process.exit(failures ? 1 : 0);
