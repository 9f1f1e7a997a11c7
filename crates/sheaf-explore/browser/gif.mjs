// The page in use, as a GIF for the README. Usage: node gif.mjs SHEAF FILE.gif
//
// Screenshots of a real browser. CHROMIUM names it if it is not /usr/bin/chromium.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { agentAt, launch, settled, start } from "./drive.mjs";

const [program, file] = process.argv.slice(2);
if (!file) throw new Error("usage: node gif.mjs SHEAF FILE.gif");
const server = await start(program), browser = await launch();
const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, colorScheme: "light" });
await page.goto(server.url);
await settled(page);
// Screenshots have no pointer.
await page.evaluate(() => {
  const pointer = Object.assign(document.createElement("div"), { id: "pointer" });
  Object.assign(pointer.style, { position: "fixed", width: "18px", height: "18px", borderRadius: "50%", border: "3px solid #d55e00", background: "rgb(255 255 255 / 60%)", transform: "translate(-50%, -50%)", pointerEvents: "none", zIndex: 9, left: "-40px" });
  document.body.append(pointer);
});

const shots = [], delays = [];
async function shoot(delay = 110) {
  shots.push((await page.screenshot()).toString("base64"));
  delays.push(delay);
}
async function point({ x, y }) {
  await page.evaluate(({ x, y }) => Object.assign(document.getElementById("pointer").style, { left: `${x}px`, top: `${y}px` }), { x, y });
  await page.mouse.move(x, y);
}
const middle = async (selector) => {
  const box = await page.locator(selector).boundingBox();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
};
async function press(selector) {
  await point(await middle(selector));
  await shoot(350);
  await page.click(selector);
  await settled(page);
}
async function run(from, to, step) {
  for (let k = from; k <= to; k += step) {
    await page.fill("#scrub", String(k));
    await settled(page);
    await shoot(90);
  }
}

// The agents find the way.
await point(await middle("#play"));
await shoot(900);
await run(2, 40, 2);
// The goal moves while they negotiate.
await press('#tools button[value="goal"]');
await press('input[name="when"][value="now"]');
const corner = await agentAt(page, [17, 1]);
await point(corner);
await shoot(400);
await page.mouse.click(corner.x, corner.y);
await settled(page);
await page.waitForTimeout(250);
await shoot(1200);
await page.waitForTimeout(2600);
await point(await middle("#play"));
await run(42, 66, 2);
await shoot(900);
// An agent is kicked.
await press('#tools button[value="kick"]');
const agent = await agentAt(page, 40);
await point(agent);
await page.mouse.down();
for (let i = 1; i <= 4; i++) { await point({ x: agent.x + 28 * i, y: agent.y + 12 * i }); await page.waitForTimeout(40); await shoot(120); }
await page.mouse.up();
await settled(page);
await press('#layers button[value="difference"]');
await page.waitForTimeout(2600);
await run(67, 80, 1);
await shoot(1500);
await page.close();

const encoder = await browser.newPage();
const source = readFileSync(createRequire(import.meta.url).resolve("gifenc/dist/gifenc.esm.js")).toString("base64");
const gif = await encoder.evaluate(encode, { source, shots, delays, width: 960, height: 540 });
writeFileSync(file, Buffer.from(gif, "base64"));
await browser.close();
server.stop();
console.log(`${file}: ${shots.length} pictures, ${(Buffer.byteLength(gif, "base64") / 1e6).toFixed(2)} MB`);

// In the browser: pictures are decoded, made smaller and quantised with one palette; what did not change is transparent.
async function encode({ source, shots, delays, width, height }) {
  const { GIFEncoder, applyPalette, quantize } = await import(`data:text/javascript;base64,${source}`);
  const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  const pixels = [];
  for (const shot of shots) {
    const bytes = Uint8Array.from(atob(shot), (c) => c.charCodeAt(0));
    context.drawImage(await createImageBitmap(new Blob([bytes], { type: "image/png" })), 0, 0, width, height);
    pixels.push(context.getImageData(0, 0, width, height).data);
  }
  const some = [0, Math.floor(pixels.length / 2), pixels.length - 1], size = pixels[0].length, sample = new Uint8ClampedArray(some.length * size);
  some.forEach((i, n) => sample.set(pixels[i], n * size));
  const palette = quantize(sample, 95), clear = palette.length;
  palette.push([255, 0, 255]);
  const gif = GIFEncoder();
  let before = null;
  pixels.forEach((data, i) => {
    const index = applyPalette(data, palette.slice(0, clear)), shown = Uint8Array.from(index, (c, p) => (before && before[p] === c ? clear : c));
    gif.writeFrame(shown, width, height, { palette: i ? undefined : palette, delay: delays[i], transparent: i > 0, transparentIndex: clear, dispose: 1 });
    before = index;
  });
  gif.finish();
  const all = gif.bytes();
  let text = "";
  for (let i = 0; i < all.length; i += 32768) text += String.fromCharCode(...all.subarray(i, i + 32768));
  return btoa(text);
}
