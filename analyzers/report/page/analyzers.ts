// SPDX-License-Identifier: BSD-3-Clause
// Sections of the analyzers: interference of a run (polter.interference/1), variability of its intervals (polter.variability/1), quality of a
// job (polter.quality/1), predictions (polter.predict/1) and latencies (polter.latency/1). They compute no result.
import { plot, whenColoursChange } from "./charts";
import { Result } from "./data";
import { count, el, name, style, table, time } from "./format";
import { ns, num, section } from "./sections";

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Json = Record<string, any>;

const captioned = (caption: string, chart: HTMLElement) => el("figure", {}, el("figcaption", {}, caption), chart);
const percent = (value: number) => `${value.toFixed(1).replace("-", "−")} %`;

export function interference(r: Result): HTMLElement | null {
  const i: Json | undefined = r.interference;
  if (!i) return r.interference_unknown ? section("interference", "Interference", `Not estimated: ${name(r.interference_unknown, 600)}`) : null;
  const hit = new Map<number, number>(i.hits.map((h: Json) => [h.begin_ns + h.duration_ns, h.duration_ns]));
  const ends: number[] = i.timeline.map((s: number[]) => s[0]);
  const [low, high] = i.interference.interval;
  const groups = i.groups.filter((g: Json) => g.used).sort((a: Json, b: Json) => b.over_median_ns - a.over_median_ns);
  return section("interference", "Interference",
    `Segments between collectives of all ranks that do the same should take equally long. What took longer than its group's threshold (median + 4 MAD) was hit: ${percent(i.interference.value)} of the time (${percent(low)} to ${percent(high)}), ${i.class}. What hits all segments alike is not in it, but in the delay by OS noise above.`,
    captioned("Length of the segments over time", plot("Length of the segments over time, and those that were hit. The table below has the groups.", ends,
      [{ label: "segment", values: i.timeline.map((s: number[]) => s[1]), colour: "--s4" }, { label: "hit", values: ends.map((end) => hit.get(end) ?? null), colour: "--s0", single: true }],
      { xText: time, yText: time, logarithmic: false, xLabel: "at" })),
    table("Groups of segments that do the same", [num("Segments"), num("Hit"), num("Median"), num("MAD"), num("Threshold"), num("Excess over the median", true)],
      groups.map((g: Json) => [{ text: count(g.segments) }, { text: count(g.hit) }, ns(g.median_ns), ns(g.mad_ns), ns(g.threshold_ns), ns(g.over_median_ns)]), 8),
    i.os_noise ? table("What the excess was", [{ title: "Cause" }, { title: "Process or device" }, num("Excess", true)],
      [...i.os_noise.causes.map((c: Json) => [{ text: name(c.source) }, { text: name(c.culprit) }, ns(c.ns)]),
        [{ text: "no OS noise" }, { text: "network, file system, the program" }, ns(i.os_noise.not_os_noise_ns)]], 10) : null,
    ...i.warnings.map((w: string) => el("p", { class: "note" }, `Warning: ${name(w, 1000)}`)));
}

const range = (p: Json) => (p.interval ? `${time(p.interval[0])} to ${time(p.interval[1])}` : `no basis: ${count(p.needed_intervals)} intervals needed`);

function kind(k: Json): (HTMLElement | null)[] {
  const fit = k.fits.find((f: Json) => f.accepted), at = k.timeline.map((t: number[]) => t[0]);
  return [
    el("h3", {}, `${name(k.what)}: ${count(k.intervals)} intervals, mean ${time(k.length.mean.value)}, standard deviation ${time(k.length.deviation.value)}`),
    plot("Length of the intervals, until the last rank has arrived. The tables below have their parts and projections.", at, [{ label: "length", values: k.timeline.map((t: number[]) => t[1]), colour: "--s4" }],
      { xText: (v) => String(Math.round(v)), yText: time, logarithmic: false, xLabel: "interval" }),
    table("What an interval is made of, and what makes intervals differ", [{ title: "Part" }, num("Mean", true), num("Part of the variance")], k.parts.map((p: Json) => [{ text: name(p.part) }, ns(p.mean_ns), { text: percent(100 * p.of_variance) }])),
    table("Length on more ranks, if each rank works as much as now", [num("Ranks"), num("Typical", true), { title: "95 % interval" }, { title: "Next interval within" }, num("Mean"), num("Typical without OS noise")],
      k.projections.map((p: Json) => [{ text: count(p.ranks) }, ns(p.typical.value), { text: range(p.typical) }, { text: range(p.next) }, p.mean ? ns(p.mean.value) : { text: "?" }, p.typical_without_os_noise ? ns(p.typical_without_os_noise.value) : { text: "?" }])),
    fit ? plot(`Lengths against the quantiles of the extreme value distribution that was fitted (${fit.method === "pwm" ? "probability-weighted moments" : "moments"}, ${fit.type}): on the line where it fits.`, fit.quantiles.map((q: number[]) => q[0]),
      [{ label: "measured", values: fit.quantiles.map((q: number[]) => q[1]), colour: "--s4" }, { label: "fitted", values: fit.quantiles.map((q: number[]) => q[0]), colour: "--s0" }], { xText: time, yText: time, logarithmic: false, xLabel: "fitted" }) : null,
    k.fits_agree ? null : el("p", { class: "note" }, "The two fits do not agree on a type of extreme value distribution: nothing parametric is said."),
    ...k.warnings.map((w: string) => el("p", { class: "note" }, name(w, 1000)))];
}

export function variability(r: Result): HTMLElement | null {
  const v: Json | undefined = r.variability;
  if (!v) return r.variability_unknown ? section("variability", "Variability", `Not estimated: ${name(r.variability_unknown, 600)}`) : null;
  return section("variability", "Variability", `How much the intervals between collectives of all ranks vary, and how long they would take on more ranks: the slowest of more ranks is slower. Taken for granted: ${count(v.ranks)} ranks are like any other ${count(v.ranks)} of the larger machine.`,
    ...v.kinds.flatMap(kind), v.os_noise_unknown ? el("p", { class: "note" }, `OS noise is not told apart: ${name(v.os_noise_unknown, 400)}`) : null,
    ...v.warnings.map((w: string) => el("p", { class: "note" }, name(w, 1000))));
}

const seconds = (s: number) => time(1e9 * s);

function followed(o: Json): (HTMLElement | null)[] {
  if (o.no_basis) return [el("p", { class: "note" }, `While it ran: no basis: ${name(o.no_basis, 300)}`)];
  const known = o.points.filter((p: Json) => p.late !== null && p.interval_s), at: number[] = known.map((p: Json) => p.elapsed_ns);
  const part = (of: (p: Json) => number) => known.map((p: Json) => 100 * of(p));
  return [
    known.length > 1 ? captioned("How late the job was while it ran", plot(`How late the job was while it ran, by its ${name(o.work)}, and how late ordinary jobs are at most. The table below has the figures.`, at,
      [{ label: "late", values: part((p) => p.late), colour: "--s0" }, { label: "ordinary jobs at most", values: part((p) => p.interval_s[1] / p.usual_s - 1), colour: "--s4" }],
      { xText: time, yText: percent, logarithmic: false, xLabel: "after" })) : null,
    table(`What could be said while it ran, every ${time(o.interval_ns)}, by its ${name(o.work)}`, [num("After"), num("Work done"), num("Part judged"), num("Reached after"), num("Usually after"), num("Late", true), { title: "Verdict then" }, num("Run time from rates"), num("Its error")],
      o.points.map((p: Json) => [ns(p.elapsed_ns), { text: percent(100 * p.done) }, { text: p.level === null ? "?" : percent(100 * p.level) }, { text: p.reached_s === null ? "not yet" : seconds(p.reached_s) }, { text: p.usual_s === null ? "?" : seconds(p.usual_s) }, { text: p.late === null ? "not known yet" : percent(100 * p.late) },
        { text: name(p.no_basis ?? p.verdict, 200) }, { text: p.run_time_from_rates_s === null ? "?" : seconds(p.run_time_from_rates_s) }, { text: p.left_out_error === null ? "?" : percent(100 * p.left_out_error) }]), 10)];
}

export function job(q: Json): HTMLElement {
  const because = q.because.map((b: Json) => `${b.source}${b.culprit ? ` by ${b.culprit}` : ""}`).join(", and ");
  const verdict = `${q.verdict}${because ? `, because ${because}` : ""}${q.no_basis ? `: ${q.no_basis}` : ""}`;
  return section("job", "Quality of the job",
    `${name(q.job.application)} took ${time(q.job.runtime_ns)}. ${q.expected ? `Expected from ${count(q.history)} jobs before it: ${seconds(q.expected.value)} (95 %: ${seconds(q.expected.interval[0])} to ${seconds(q.expected.interval[1])}); it took ${percent(100 * q.difference)} more. ` : ""}Verdict: ${name(verdict, 600)}.`,
    q.because.length > 0 ? table("Why: noise beyond what such jobs have", [{ title: "Source" }, { title: "Process or device" }, num("Rank"), num("Took", true), num("Usually")],
      q.because.map((b: Json) => [{ text: name(b.source) }, { text: name(b.culprit || "?") }, { text: count(b.rank) }, ns(b.ns), ns(b.usual_ns)])) : null,
    q.differences.length > 0 ? table("What differs most from the jobs before", [{ title: "Feature" }, num("Here"), num("Usually"), num("Deviations", true)],
      q.differences.map((d: Json) => [{ text: name(d.feature) }, { text: String(Number(d.value.toPrecision(4))) }, { text: String(Number(d.usual.toPrecision(4))) }, { text: d.deviations.toFixed(1).replace("-", "−") }]), 8) : null,
    ...followed(q.online),
    table("How well run times are estimated, each job from the others", [{ title: "Estimated from" }, num("Median error", true), num("Components")],
      q.models.map((m: Json) => [{ text: name(m.inputs) }, { text: m.left_out_error === null ? "?" : percent(100 * m.left_out_error) }, { text: count(m.components) }])),
    ...q.warnings.map((w: string) => el("p", { class: "note" }, `Warning: ${name(w, 1000)}`)));
}

// The least latency of each pair; opacity is its part of the greatest.
function pairs(minima: number[][]): HTMLElement {
  const n = minima.length, most = minima.reduce((m, row) => Math.max(m, ...row), 1);
  const canvas = el("canvas", { role: "img", class: "heat", "aria-label": `Least latency of each pair of ranks. Greatest: ${time(most)}. The table of modes names the pairs.` }) as HTMLCanvasElement;
  canvas.width = canvas.height = n;
  canvas.style.width = canvas.style.height = `${Math.min(480, Math.max(120, n * 12))}px`;
  const paint = () => {
    const g = canvas.getContext("2d") as CanvasRenderingContext2D, image = g.createImageData(n, n);
    const colour = style("--heat-delay").split(",").map(Number);
    minima.forEach((row, a) => row.forEach((value, b) => image.data.set([...colour, (255 * value) / most], 4 * (a * n + b))));
    g.putImageData(image, 0, 0);
  };
  paint();
  whenColoursChange(paint);
  const tip = el("p", { class: "status" }, `Rank × rank; strongest colour: ${time(most)}`);
  canvas.addEventListener("pointermove", (e) => {
    const a = Math.floor((e.offsetY / canvas.clientHeight) * n), b = Math.floor((e.offsetX / canvas.clientWidth) * n);
    if (minima[a]?.[b]) tip.textContent = `ranks ${a} and ${b}: ${time(minima[a][b])}`;
  });
  return el("figure", {}, el("figcaption", {}, "Least latency of each pair"), canvas, tip);
}

const places: [string, string][] = [["on_node", "within nodes"], ["off_node", "between nodes"]];

export function latency(l: Json): HTMLElement {
  const all: [string, Json][] = places.flatMap(([key, words]) => [["pairwise", words], ["pairwise_minima", `${words}, least of a block`], ["pairwise_hit", `${words}, hit by noise`]].map(([kind, label]) => [label, l.distributions[key][kind]] as [string, Json]))
    .filter(([, d]) => d.histogram.samples > 0);
  const curve = (label: string, d: Json, which: number, what: string) => captioned(`${what}, ${label}`, plot(`${what} of the latency ${label}. The table below has its figures.`, d.curve.map((c: number[]) => c[0]).map((x: number) => Math.max(x, 1)),
    [{ label, values: d.curve.map((c: number[]) => c[which]), colour: "--s4" }], { xText: time, yText: (v) => String(Number(v.toPrecision(2))), logarithmic: which === 1 || "x", xLabel: "latency from" }));
  const blocks = [...l.blocks].sort((a: Json, b: Json) => a.begin_ns - b.begin_ns);
  const values = (key: string) => blocks.map((b: Json) => b[key]);
  const tails = places.flatMap(([key, words]) => (l.tails[key]?.modes ?? []).map((m: Json) => [{ text: words }, ns(m.length_ns), { text: count(m.samples) }, { text: percent(100 * m.share_of_time) }]));
  return section("latency", "Latency between ranks", `${count(l.configuration.ranks)} ranks, messages of ${count(l.configuration.bytes)} bytes both ways; ${percent(100 * l.clock.quiet_share)} of the pairs of clock readings were undisturbed.`,
    ...all.slice(0, 2).flatMap(([label, d]) => [curve(label, d, 1, "Density (share of the samples per ns)"), curve(label, d, 2, "Cumulative share")]),
    table("Latencies", [{ title: "Pairs" }, num("Samples"), num("Least"), num("Mode"), num("Median"), num("Mean"), num("99 %"), num("Most")],
      all.map(([label, d]) => [{ text: label }, { text: count(d.histogram.samples) }, ns(d.least_ns), ns(d.mode_ns), ns(d.median_ns), ns(d.mean_ns), ns(d.p99_ns), ns(d.most_ns)])),
    table("Modes, and the pairs behind them", [{ title: "Pairs" }, num("Centre"), num("Share"), num("Pairs of ranks"), { title: "Ranks with half of their pairs there" }],
      l.modes.map((m: Json) => [{ text: places.find(([key]) => key === m.place)?.[1] ?? "" }, ns(m.centre.value), { text: percent(100 * m.share) }, { text: count(m.pairs.length) }, { text: name(m.ranks.join(", ") || "–", 200) }])),
    tails.length > 0 ? table("Far above the median: disturbances by their usual lengths", [{ title: "Pairs" }, num("Excess"), num("Samples"), num("Share of the time", true)], tails) : null,
    l.pair_minima_ns.length > 0 ? pairs(l.pair_minima_ns) : null,
    blocks.length > 1 ? captioned("Latency over time, by block of a pair and a cycle", plot("Latency over time, by block of a pair and a cycle. The table of latencies has the sums.", values("begin_ns"),
      [{ label: "median", values: values("median_ns"), colour: "--s4" }, { label: "99 %", values: values("p99_ns"), colour: "--s1" }, { label: "least", values: values("least_ns"), colour: "--s2" }],
      { xText: time, yText: time, logarithmic: "y", xLabel: "at" })) : null,
    ...l.warnings.map((w: string) => el("p", { class: "note" }, `Warning: ${name(w, 1000)}`)));
}

// One curve each of run time, without noise and with it, over the number of ranks; the interval as two more.
export function prediction(p: Json): HTMLElement {
  const predicted: Json[] = p.predictions.filter((one: Json) => one.basis).sort((a: Json, b: Json) => a.ranks - b.ranks), m: Json = p.measured;
  const refused = [...p.no_basis_because, ...p.predictions.filter((one: Json) => !one.basis).map((one: Json) => one.verdict)];
  const ranks = [m.ranks, ...predicted.map((one) => one.ranks)], ends = (which: number) => [m.accumulated_noise_ns, ...predicted.map((one) => one.accumulated_noise.interval?.[which] ?? null)];
  const other = (one: Json, method: string) => one.methods.find((o: Json) => o.name === method)?.accumulated_noise_ns ?? null;
  const cell = (value: number | null) => (value === null ? { text: "–" } : ns(value));
  return section("prediction", "On more ranks",
    p.pattern.name ? `Weak scaling: each rank with as much work as now. Messages: ${name(p.pattern.name, 100)}; noise drawn ${count(p.noise.draws)} times from what ${count(p.noise.hosts)} hosts had.` : "What noise would cost on more ranks cannot be predicted from this run.",
    ...refused.map((why: string) => el("p", { class: "note" }, `No basis: ${name(why, 600)}`)),
    ...predicted.map((one) => el("p", {}, name(one.verdict, 600))),
    predicted.length > 0 ? captioned("Delay by OS noise over the number of ranks", plot("Delay by OS noise over the number of ranks. The table below has the figures.", ranks,
      [{ label: "delay", values: [m.accumulated_noise_ns, ...predicted.map((one) => one.accumulated_noise.value)], colour: "--s0" },
        { label: "95 % from", values: ends(0), colour: "--s4" }, { label: "to", values: ends(1), colour: "--s4" }],
      { xText: count, yText: time, logarithmic: "x", xLabel: "ranks" })) : null,
    p.predictions.length > 0 ? table("Predicted delay by OS noise", [num("Ranks"), { title: "Grid" }, num("Run time without noise"), num("Delay", true), num("From"), num("To"), num("EMMA"), num("Tsafrir's rule"), { title: "Basis" }],
      [[{ text: count(m.ranks) }, { text: "measured" }, ns(m.run_time_without_noise_ns), ns(m.accumulated_noise_ns), cell(null), cell(null), cell(null), cell(null), { text: "measured" }],
        ...p.predictions.map((one: Json) => [{ text: count(one.ranks) }, { text: one.grid.join(" × ") }, ns(one.run_time_without_noise_ns), ns(one.accumulated_noise.value), cell(one.accumulated_noise.interval?.[0] ?? null), cell(one.accumulated_noise.interval?.[1] ?? null), cell(other(one, "EMMA")), cell(other(one, "Tsafrir")), { text: one.basis ? "yes" : "no" }])]) : null,
    ...p.warnings.map((w: string) => el("p", { class: "note" }, `Warning: ${name(w, 1000)}`)));
}
