// Colours. Classes are those of Okabe and Ito; scales grow in lightness, so that they read without hue.

export const CLASS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a89a1c", "#7a7a90", "#117733", "#aa4499"];
export const START = [0, 158, 115], GOAL = [213, 94, 0], PATH = [0, 114, 178], DIFF = [230, 159, 0];

let theme = {};
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "card", "ink", "quiet", "line", "accent", "warm", "wall", "open"];
  theme = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  theme.dark = style.colorScheme === "dark";
  theme.path = theme.dark ? [86, 180, 233] : PATH;
  for (const name of ["paper", "wall", "open", "ink"]) theme[`${name}Rgb`] = rgb(theme[name]);
  return theme;
}
export const colours = () => theme;

export function rgb(hex) {
  const n = parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}
export const css = ([r, g, b], a = 1) => `rgb(${r} ${g} ${b} / ${a})`;
export const mix = (a, b, t) => [0, 1, 2].map((i) => Math.round(a[i] + (b[i] - a[i]) * t));

// A scale of one sign: dark violet to yellow (cividis-like), 64 steps.
const ANCHORS = [[0, 32, 81], [60, 77, 110], [127, 124, 117], [187, 175, 113], [253, 231, 55]];
export const SCALE = Array.from({ length: 64 }, (_, i) => ramp(ANCHORS, i / 63));
// A scale of two signs: blue, paper, vermillion.
export const SIGNED = Array.from({ length: 65 }, (_, i) => ramp([[0, 90, 160], [120, 180, 215], [245, 243, 238], [240, 165, 110], [180, 65, 0]], i / 64));

function ramp(anchors, t) {
  const at = t * (anchors.length - 1), low = Math.min(Math.floor(at), anchors.length - 2);
  return mix(anchors[low], anchors[low + 1], at - low);
}
