// SPDX-License-Identifier: BSD-3-Clause
// Heat map (own canvas) and curves (uPlot). Each has a table beside it for those who cannot see it.
import uPlot from "uplot";
import { Result, Timeline } from "./data";
import { count, el, name, table, time } from "./format";

const css = (v: string) => getComputedStyle(document.documentElement).getPropertyValue(v).trim();

// Rank × time; `levels` may be seen through in proportion to the largest cell, on a square-root scale.
export function heatMap(t: Timeline, what: "noise" | "delay"): HTMLElement {
  const level = t.levels.find((l) => l.buckets <= 1024) ?? t.levels[t.levels.length - 1];
  const tables = what === "delay" ? [level.delay_ns] : level.noise.map((n) => n.ns);
  const cell = (row: number, i: number) => tables.map((rows) => rows[row][i]);
  let most = 1;
  for (let row = 0; row < t.rows; ++row) for (let i = 0; i < level.buckets; ++i) most = Math.max(most, ...cell(row, i));
  const canvas = el("canvas", { role: "img", class: "heat", "aria-label":
    `${what === "noise" ? "Local noise" : "Delay"} by rank and time. Darkest: ${time(most)}${what === "noise" ? ` of one source within ${time(level.bucket_ns)}` : ""}. The tables by rank hold the sums.` }) as HTMLCanvasElement;
  canvas.width = level.buckets;
  canvas.height = t.rows;
  canvas.style.height = `${Math.max(90, Math.min(420, t.rows * 14))}px`;
  const paint = () => {
    const g = canvas.getContext("2d") as CanvasRenderingContext2D, image = g.createImageData(level.buckets, t.rows);
    const colour = css(what === "noise" ? "--heat-noise" : "--heat-delay").split(",").map(Number);
    for (let row = 0, at = 0; row < t.rows; ++row)
      for (let i = 0; i < level.buckets; ++i, at += 4) {
        image.data.set(colour, at);
        image.data[at + 3] = 255 * Math.sqrt(Math.max(...cell(row, i), 0) / most);
      }
    g.putImageData(image, 0, 0);
  };
  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  const tip = el("p", { class: "status" }, `Full colour: ${time(most)}. One cell: ${time(level.bucket_ns)}${t.ranks_per_row > 1 ? `, ${t.ranks_per_row} ranks` : ""}.`);
  canvas.addEventListener("pointermove", (e) => {
    const row = Math.floor((e.offsetY / canvas.clientHeight) * t.rows), i = Math.floor((e.offsetX / canvas.clientWidth) * level.buckets);
    if (row < 0 || row >= t.rows || i < 0 || i >= level.buckets) return;
    tip.textContent = `rank ${row * t.ranks_per_row}, at ${time(i * level.bucket_ns)}: ` + (what === "delay" ? time(level.delay_ns[row][i])
      : level.noise.filter((n) => n.ns[row][i]).map((n) => `${name(t.sources[n.source])} ${time(n.ns[row][i])}`).join(", ") || "no noise");
  });
  return el("figure", {}, el("figcaption", {}, what === "noise" ? "Local noise" : "Delay"), canvas, tip);
}

export function distributions(result: Result): HTMLElement {
  const list: any[] = result.durations ?? [];
  const box = el("div");
  if (list.length === 0) return box;
  const edges = [...new Set(list.flatMap((d) => d.bins.flatMap((b: any) => [b.from_ns, b.to_ns])))].sort((a, b) => a - b).filter((x) => x > 0);
  const series = list.map((d) => {
    const at = new Map<number, number>(d.bins.map((b: any) => [b.from_ns, b.events]));
    return edges.map((e) => at.get(e) ?? null);
  });
  const host = el("div", { class: "plot", role: "img", "aria-label": "Number of noise events by duration and source, both axes logarithmic. The table below has the percentiles." });
  const names = list.map((d) => name(result.source_names?.[d.source] ?? d.source));
  const draw = () => {
    host.replaceChildren();
    const axis = { stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") }, font: "12px system-ui, sans-serif" };
    new uPlot({
      width: Math.max(260, host.clientWidth), height: 260, cursor: { drag: { x: false, y: false } },
      scales: { x: { time: false, distr: 3 }, y: { distr: 3 } },
      axes: [{ ...axis, values: (_u, v) => v.map((x) => (x === null ? "" : time(x))) }, { ...axis, size: 60, values: (_u, v) => v.map((x) => (x === null ? "" : count(x))) }],
      series: [{ label: "duration", value: (_u, v) => (v === null ? "" : time(v)) },
        ...names.map((label, i) => ({ label, stroke: css(`--s${i % 8}`), width: 2, points: { show: true, size: 5 }, spanGaps: true }))],
    }, [edges, ...series] as uPlot.AlignedData, host);
  };
  new ResizeObserver(() => draw()).observe(host);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  box.append(host, table("Durations of noise events", [{ title: "Source" }, { title: "Events", numeric: true }, { title: "Median", numeric: true },
    { title: "90 %", numeric: true }, { title: "99 %", numeric: true }, { title: "Longest", numeric: true }],
    list.map((d, i) => [{ text: names[i] }, { text: count(d.events) }, ...["50", "90", "99", "100"].map((p) => ({ text: time(d.percentiles_ns[p]), ns: d.percentiles_ns[p] }))])));
  return box;
}
