// SPDX-License-Identifier: BSD-3-Clause
// Heat maps (own canvas) and curves (uPlot). Each has a table beside it for those who cannot see it.
import uPlot from "uplot";
import { Result, Timeline } from "./data";
import { count, el, name, sourceColour, style, table, time } from "./format";

export function whenColoursChange(paint: () => void): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  addEventListener("polter-colours", paint);
}

// Rank × time; opacity is the root of a cell's part of the greatest. Where cells are smaller than pixels, the greatest of them is seen.
export function heatMap(t: Timeline, what: "noise" | "delay", goTo: (begin: number, end: number) => void): HTMLElement {
  const level = t.levels.find((l) => l.buckets <= 1024) ?? t.levels[t.levels.length - 1], n = level.buckets;
  const tables = what === "delay" ? [level.delay_ns] : level.noise.filter((s) => !t.sources[s.source].startsWith("os-service:")).map((s) => s.ns);
  const cells = new Float64Array(t.rows * n);
  let most = 1;
  for (const rows of tables)
    for (let row = 0; row < t.rows; ++row)
      for (let i = 0, of = rows[row]; i < n; ++i) {
        if (of[i] > cells[row * n + i]) cells[row * n + i] = of[i];
        if (of[i] > most) most = of[i];
      }
  const what_ = what === "noise" ? "Local noise" : "Delay";
  const canvas = el("canvas", { role: "img", class: "heat", "aria-label":
    `${what_} by rank and time. Greatest: ${time(most)}${what === "noise" ? ` of one source within ${time(level.bucket_ns)}` : ""}. The tables by rank hold the sums.` }) as HTMLCanvasElement;
  const height = Math.max(40, Math.min(320, t.rows * 14));
  canvas.style.height = `${height}px`;
  const paint = () => {
    const scale = devicePixelRatio || 1, w = Math.min(n, Math.floor(canvas.clientWidth * scale)), h = Math.min(t.rows, Math.floor(height * scale));
    if (w < 1) return;
    canvas.width = w;
    canvas.height = h;
    const seen = new Float64Array(w * h);
    for (let row = 0; row < t.rows; ++row)
      for (let i = 0, line = Math.floor((row * h) / t.rows) * w; i < n; ++i) {
        const at = line + Math.floor((i * w) / n);
        if (cells[row * n + i] > seen[at]) seen[at] = cells[row * n + i];
      }
    const g = canvas.getContext("2d") as CanvasRenderingContext2D, image = g.createImageData(w, h);
    const [red, green, blue] = style(what === "noise" ? "--heat-noise" : "--heat-delay").split(",").map(Number);
    for (let i = 0; i < seen.length; ++i) {
      image.data[4 * i] = red;
      image.data[4 * i + 1] = green;
      image.data[4 * i + 2] = blue;
      image.data[4 * i + 3] = 255 * Math.sqrt(seen[i] / most);
    }
    g.putImageData(image, 0, 0);
  };
  new ResizeObserver(paint).observe(canvas);
  whenColoursChange(paint);
  const ramp = el("i", { class: "ramp", "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, var(--panel), rgb(var(${what === "noise" ? "--heat-noise" : "--heat-delay"})))`;
  const tip = el("span", {}, `One cell: ${time(level.bucket_ns)}${t.ranks_per_row > 1 ? `, ${t.ranks_per_row} ranks` : ""}. Click to see it in the timeline.`);
  const cellAt = (e: MouseEvent) => [Math.floor((e.offsetY / canvas.clientHeight) * t.rows), Math.floor((e.offsetX / canvas.clientWidth) * n)];
  canvas.addEventListener("pointermove", (e) => {
    const [row, i] = cellAt(e);
    if (row < 0 || row >= t.rows || i < 0 || i >= n) return;
    tip.textContent = `rank ${row * t.ranks_per_row}, at ${time(i * level.bucket_ns)}: ` + (what === "delay" ? time(level.delay_ns[row][i])
      : level.noise.filter((s) => s.ns[row][i]).map((s) => `${name(t.sources[s.source])} ${time(s.ns[row][i])}`).join(", ") || "no noise");
  });
  canvas.addEventListener("click", (e) => {
    const at = cellAt(e)[1] * level.bucket_ns;
    goTo(at - 2 * level.bucket_ns, at + 3 * level.bucket_ns);
  });
  return el("figure", {}, el("figcaption", {}, `${what_ === "Delay" ? "Delay (so far)" : what_}, rank × time`), canvas,
    el("p", { class: "status" }, el("span", { class: "scale" }, "0 ", ramp, ` ${time(most)}${what === "noise" ? ` in ${time(level.bucket_ns)}` : ""}`), tip));
}

// single: points that are not joined.
export interface Curve { label: string; values: (number | null)[]; colour: string; single?: boolean }

export function plot(label: string, x: number[], curves: Curve[], options: { xText: (v: number) => string; yText: (v: number) => string; logarithmic: boolean | "x" | "y"; xLabel: string }): HTMLElement {
  const host = el("div", { class: "plot", role: "img", "aria-label": label });
  let drawn = 0;
  const draw = () => {
    const width = host.clientWidth;
    if (width < 50) return;
    drawn = width;
    host.replaceChildren();
    const line = { stroke: style("--muted"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") }, font: "12px system-ui, sans-serif" };
    const text = (f: (v: number) => string) => (_: uPlot, values: (number | null)[]) => values.map((v) => (v === null ? "" : f(v)));
    const distr = (axis: "x" | "y") => (options.logarithmic === true || options.logarithmic === axis ? { distr: 3 as const } : null);
    new uPlot({
      width, height: 250, cursor: { drag: { x: false, y: false } },
      scales: { x: { time: false, ...(distr("x") ?? {}) }, y: distr("y") ?? { range: (_u, _low, high) => [0, high > 0 ? high * 1.05 : 1] } },
      axes: [{ ...line, values: text(options.xText) }, { ...line, size: 70, values: text(options.yText) }],
      series: [{ label: options.xLabel, value: (_u, v) => (v === null ? "" : options.xText(v)) },
        ...curves.map((c) => ({ label: c.label, stroke: style(c.colour), width: 2, points: { show: c.single || x.length < 200, size: c.single ? 7 : 5 }, spanGaps: !c.single, ...(c.single ? { paths: () => null } : {}), value: (_u: uPlot, v: number | null) => (v === null ? "" : options.yText(v)) }))],
    }, [x, ...curves.map((c) => c.values)] as uPlot.AlignedData, host);
  };
  new ResizeObserver(() => { if (host.clientWidth !== drawn) draw(); }).observe(host);
  whenColoursChange(draw);
  return host;
}

// Stolen and delay by rank: of all noise, or of one source.
export function rankProfile(result: Result): HTMLElement {
  const ranks: any[] = result.per_rank, removed: string[] = result.removed;
  const choice = el("select", { id: "profile-source" }, el("option", { value: "" }, "all noise"),
    ...removed.filter((s) => result.sources[s]?.local_noise_ns.max > 0).map((s) => el("option", { value: s }, name(result.source_names[s] ?? s)))) as HTMLSelectElement;
  const box = el("div");
  const show = () => {
    const of = choice.value, value = (key: "local" | "delay") => ranks.map((r) => of ? r.sources?.[of]?.[key === "local" ? "local_noise_ns" : "share_ns"] ?? null : key === "local" ? r.local_noise_ns : r.accumulated_noise_ns);
    box.replaceChildren(plot("Stolen time and delay at the end, by rank. The table below has the figures.", ranks.map((r) => r.rank),
      [{ label: "stolen (local noise)", values: value("local"), colour: "--s4" }, { label: of ? "share of the delay at the end" : "delay at the end (accumulated noise)", values: value("delay"), colour: "--s0" }],
      { xText: (v) => (Number.isInteger(v) ? String(v) : ""), yText: time, logarithmic: false, xLabel: "rank" }));
  };
  choice.addEventListener("change", show);
  show();
  return el("figure", {}, el("figcaption", {}, el("label", { for: "profile-source" }, "By rank: "), choice), box);
}

export function distributions(result: Result): HTMLElement {
  const list: any[] = result.durations ?? [];
  const edges = [...new Set(list.flatMap((d) => d.bins.map((b: any) => b.from_ns)))].sort((a, b) => a - b).filter((x) => x > 0);
  const curves = list.map((d, i) => {
    const at = new Map<number, number>(d.bins.map((b: any) => [b.from_ns, b.events]));
    return { label: name(result.source_names?.[d.source] ?? d.source), values: edges.map((e) => at.get(e) ?? null), colour: sourceColour(d.source, i) };
  });
  return el("div", {}, plot("Number of noise events by duration and source, both axes logarithmic. The table below has the percentiles.", edges, curves,
    { xText: time, yText: count, logarithmic: true, xLabel: "duration from" }),
    table("Durations of noise events", [{ title: "Source" }, ...["Events", "Median", "90 %", "99 %", "Longest"].map((title) => ({ title, numeric: true }))],
      list.map((d, i) => [{ text: curves[i].label }, { text: count(d.events) }, ...["50", "90", "99", "100"].map((p) => ({ text: time(d.percentiles_ns[p]), ns: d.percentiles_ns[p] }))])));
}
