// What tests and pictures share: the server, the browser, and where things are on the page.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

// Starts `sheaf explore` and reads its address from the first line that it prints.
export async function start(program, ...more) {
  const child = spawn(program, ["explore", "--no-open", "--port", "0", ...more], { stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
    createInterface({ input: child.stdout }).once("line", resolve);
  });
  const stop = () => { child.removeAllListeners("exit"); child.kill(); };
  return { url, stop, pid: child.pid };
}

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

// Until the server has answered what the page last asked, and the answer is drawn.
export async function settled(page) {
  await page.waitForFunction(() => window.sheaf?.all.film && !document.body.classList.contains("busy") && !window.sheaf.all.dirty);
}

export const choose = (page, box, value) => page.click(`#${box} button[value="${value}"]`);

// Where an agent, or a cell, is on the screen.
export const agentAt = (page, agent) => page.evaluate((agent) => {
  const { film } = window.sheaf.all, { canvas, scale, x, y } = window.sheaf.right, box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
  const [row, column] = typeof agent === "number" ? [film.places[2 * agent], film.places[2 * agent + 1]] : agent;
  return { x: box.left + (x + (column + 0.5) * scale) / ratio, y: box.top + (y + (row + 0.5) * scale) / ratio };
}, agent);
