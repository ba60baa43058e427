// Curves of a day, drawn as SVG.
//
// A curve is a list of [time, value]. Points that are missing are passed over with a straight line: nobody asked for
// the campaign there, so nothing was spent.

const NS = "http://www.w3.org/2000/svg";
const MINUTE = 60_000, HOUR = 60 * MINUTE;
const STEPS = [1_000, 5_000, 15_000, 30_000, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR];

/** The points of `values`, which lie at the same distance from each other. */
export function points({ begins_ms, ends_ms }, values) {
  const step = (ends_ms - begins_ms) / (values.length - 1);
  return values.flatMap((value, at) => (value === null ? [] : [[begins_ms + at * step, value]]));
}

/** Money of micros. */
export function money(micros) {
  const units = micros / 1e6;
  return units.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: units && units < 1 ? 4 : 2 });
}

export const percent = (part) => `${(100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;

function clock(time, step) {
  const [, hours, seconds] = /(\d\d:\d\d)(:\d\d)/.exec(new Date(time).toTimeString());
  return step < MINUTE ? hours + seconds : hours;
}

/** A number above, of one digit that divides well. */
function round(number) {
  const unit = 10 ** Math.floor(Math.log10(number));
  return unit * [1, 2, 2.5, 5, 10].find((times) => times * unit >= number);
}

function add(svg, name, attributes, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  svg.append(element);
}

/** Where a chart's points lie. */
class Plane {
  constructor({ begins_ms, ends_ms }, { width, height, left = 0, top = 4, bottom = 0, low = 0, high }) {
    Object.assign(this, { begins_ms, ends_ms, width, height, left, top, bottom, low, high });
  }

  x(time) { return this.left + ((time - this.begins_ms) / (this.ends_ms - this.begins_ms)) * (this.width - this.left); }
  y(value) {
    const { top, bottom, height, low, high } = this;
    return top + (1 - (value - low) / (high - low || 1)) * (height - bottom - top - 4);
  }
  path(curve) {
    const place = ([time, value]) => `${this.x(time).toFixed(1)} ${this.y(value).toFixed(1)}`;
    return curve.map((point, at) => `${at ? "L" : "M"}${place(point)}`).join("");
  }
}

function begin(svg, width, height) {
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
}

/** A small one, without words: `curves` by their class, `now` as a line. */
export function small(svg, span, curves, now, high) {
  const [width, height] = [240, 80];
  begin(svg, width, height);
  svg.setAttribute("preserveAspectRatio", "none");
  const plane = new Plane(span, { width, height, low: lowest(curves), high });
  add(svg, "path", { class: "grid", d: `M0 ${height - 4}H${width}` });
  add(svg, "path", { class: "now", d: `M${plane.x(now).toFixed(1)} 0V${height}` });
  for (const [name, curve] of Object.entries(curves)) add(svg, "path", { class: name, d: plane.path(curve) });
}

/** What was spent before this day is left out: nothing of it would be seen. */
function lowest(curves) {
  const low = Math.min(...Object.values(curves).flatMap((curve) => curve.map(([, value]) => value)));
  return Number.isFinite(low) ? low : 0;
}

/** A large one, with a scale of times and one of values, which `word` makes of numbers. */
export function large(svg, span, curves, { now, height, high, word, fromZero = true }) {
  const width = Math.max(360, svg.clientWidth || 900);
  begin(svg, width, height);
  svg.style.height = `${height}px`;
  const low = fromZero ? 0 : lowest(curves);
  const step = round((high - low || 1) / 4);
  const plane = new Plane(span, { width: width - 12, height, left: 76, top: 12, bottom: 22, low, high });
  for (let value = Math.ceil(low / step) * step; value <= high * 1.0001; value += step) {
    const y = plane.y(value).toFixed(1);
    add(svg, "path", { class: "grid", d: `M${plane.left} ${y}H${plane.width}` });
    add(svg, "text", { x: plane.left - 8, y: Number(y) + 4, "text-anchor": "end" }, word(value));
  }
  const length = span.ends_ms - span.begins_ms;
  const tick = STEPS.find((tick) => length / tick <= 9) ?? STEPS.at(-1);
  const offset = new Date(span.begins_ms).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((span.begins_ms - offset) / tick) * tick + offset;
  for (let time = first; time <= span.ends_ms; time += tick) {
    add(svg, "path", { class: "grid", d: `M${plane.x(time).toFixed(1)} 4V${height - 22}` });
    add(svg, "text", { x: plane.x(time), y: height - 6, "text-anchor": "middle" }, clock(time, tick));
  }
  add(svg, "path", { class: "now", d: `M${plane.x(now).toFixed(1)} 4V${height - 22}` });
  for (const [name, curve] of Object.entries(curves)) add(svg, "path", { class: name, d: plane.path(curve) });
}
