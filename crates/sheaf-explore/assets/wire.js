// Requests to the server, and the arrays of its answers as views of one buffer.

const TYPES = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array };

export class Refused extends Error {
  constructor(error) {
    super(`${error.place}: expected ${error.expected}, got ${error.got}${error.hint ? `\nHint: ${error.hint}` : ""}`);
    this.place = error.place;
  }
}

export async function models() {
  const answer = await fetch("api/models");
  if (!answer.ok) throw new Refused((await answer.json()).error);
  return answer.json();
}

export async function solve(ask, signal) {
  const answer = await fetch("api/solve", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Sheaf": "1" },
    body: JSON.stringify(ask),
    signal,
  });
  if (!answer.ok) throw new Refused((await answer.json()).error);
  return decode(await answer.arrayBuffer());
}

export function decode(buffer) {
  const view = new DataView(buffer);
  const magic = new TextDecoder().decode(new Uint8Array(buffer, 0, 6));
  if (magic !== "SHEAF1") throw new Error("not an answer of this server");
  const length = Number(view.getBigUint64(8, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 16, length)));
  const film = { about: header.about, shapes: {} };
  for (const { name, type, shape, offset } of header.arrays) {
    const count = shape.reduce((a, b) => a * b, 1);
    film[name] = new TYPES[type](buffer, 16 + length + offset, count);
    film.shapes[name] = shape;
  }
  return film;
}

// One request at a time; while it runs, only the latest of those that follow is kept.
export class Line {
  constructor(done, failed, busy) {
    Object.assign(this, { done, failed, busy, running: false, next: null });
  }
  ask(make) {
    this.next = make;
    if (!this.running) this.run();
  }
  async run() {
    this.running = true;
    this.busy(true);
    while (this.next) {
      const make = this.next;
      this.next = null;
      try {
        const films = await make();
        if (!this.next) this.done(films);
      } catch (error) {
        if (!this.next) this.failed(error);
      }
    }
    this.running = false;
    this.busy(false);
  }
}
