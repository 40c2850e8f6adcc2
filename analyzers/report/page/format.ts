// SPDX-License-Identifier: BSD-3-Clause
// Numbers as polter prints them, and elements. Names from the trace go through `text` only: they are never markup.

const units: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

export function time(ns: number | null | undefined): string {
  if (ns === null || ns === undefined) return "unknown";
  if (ns === 0) return "0";
  const [unit, name] = units.find(([u]) => Math.abs(ns) >= u * 0.9995) ?? [1, "ns"];
  const value = ns / unit, size = Math.abs(value);
  return `${value.toFixed(name === "ns" || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2).replace("-", "−")} ${name}`;
}
export function percent(part: number, whole: number): string {
  if (!whole) return "–";
  const value = (100 * part) / whole;
  return value > 0 && value < 0.05 ? "<0.1 %" : `${value.toFixed(1).replace("-", "−")} %`;
}
export function count(n: number): string {
  return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}
export function factor(n: number | null): string {
  return n === null ? "–" : `${n.toFixed(2)} ×`;
}
// Control and direction characters are made visible; what is longer than anyone reads is cut, with its length.
export function name(s: string, most = 120): string {
  let out = "";
  for (const c of s.slice(0, most)) {
    const code = c.codePointAt(0) ?? 0;
    if (code < 32 || code === 127) out += String.fromCodePoint(code === 127 ? 0x2421 : 0x2400 + code);
    else if ((code >= 0x80 && code < 0xa0) || /[\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]/.test(c)) out += "\ufffd";
    else out += c;
  }
  return s.length > most ? `${out}… (${s.length} characters)` : out;
}

// Sources have the same colour in each figure and report; others follow in turn.
const known: Record<string, number> = { preempt: 0, timer: 1, irq: 2, softirq: 3, ipi: 4, runqueue: 5, steal: 6, throttle: 7, nmi: 7 };
export function sourceColour(source: string, i: number): string { return `--s${known[source] ?? (i + 1) % 8}`; }
// Of a CSS variable.
export function style(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

type Child = Node | string | null | undefined | false;
export function el(tag: string, attributes: Record<string, string> = {}, ...children: Child[]): HTMLElement {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  for (const child of children) if (child) element.append(child);
  return element;
}

// Bars of columns of one `scale` are as long as their values compare.
export interface Column { title: string; numeric?: boolean; bar?: boolean; scale?: string }
export type Cell = { text: string; ns?: number; node?: HTMLElement };

function cellOf(cell: Cell, column: Column, first: boolean, most: number): HTMLElement {
  const attributes: Record<string, string> = { class: column.numeric ? "n" : "t" };
  if (cell.ns !== undefined && cell.ns !== null) attributes["data-ns"] = String(cell.ns);
  const td = el(first ? "th" : "td", first ? { ...attributes, scope: "row" } : attributes, cell.node ?? el("bdi", {}, cell.text));
  if (column.bar && cell.ns) {
    const bar = el("i", { class: cell.ns < 0 ? "bar negative" : "bar", "aria-hidden": "true" });
    bar.style.width = `${(100 * Math.abs(cell.ns)) / most}%`;
    td.append(el("span", { class: "track" }, bar));
  }
  return td;
}

// A table whose long tail is made when asked for; `shown` rows stand open. Numbers carry their nanoseconds in `data-ns`.
export function table(caption: string, columns: Column[], rows: Cell[][], shown = 12): HTMLElement {
  const greatest = columns.map((c, i) => (c.bar ? rows.reduce((most, r) => Math.max(most, Math.abs(r[i].ns ?? 0)), 1) : 0));
  const most = columns.map((c, i) => (c.scale ? Math.max(...columns.map((other, k) => (other.scale === c.scale ? greatest[k] : 0))) : greatest[i]));
  const head = el("tr", {}, ...columns.map((c) => el("th", { scope: "col", class: c.numeric ? "n" : "" }, c.title)));
  const row = (cells: Cell[]) => el("tr", {}, ...cells.map((cell, i) => cellOf(cell, columns[i], i === 0, most[i])));
  const body = el("tbody", {}, ...rows.slice(0, shown).map(row));
  const wrapper = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, head), body));
  if (rows.length <= shown) return wrapper;
  const more = el("button", { type: "button", class: "more", "aria-expanded": "false" }, `Show all ${count(rows.length)} rows`);
  more.addEventListener("click", () => {
    const open = more.getAttribute("aria-expanded") === "true";
    if (open) while (body.children.length > shown) body.lastElementChild?.remove();
    else body.append(...rows.slice(shown).map(row));
    more.setAttribute("aria-expanded", String(!open));
    more.textContent = open ? `Show all ${count(rows.length)} rows` : `Show the first ${shown} rows`;
  });
  return el("div", {}, wrapper, more);
}
