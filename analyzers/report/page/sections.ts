// SPDX-License-Identifier: BSD-3-Clause
// The sections about one run, from top to bottom. They render the JSON and compute no result.
import { distributions, heatMap, rankProfile } from "./charts";
import { Amount, Result, Suggestion } from "./data";
import { Cell, Column, count, el, factor, name, percent, table, time } from "./format";
import { TimelineView } from "./view";

export const ns = (value: number | null | undefined): Cell => ({ text: time(value), ns: value ?? undefined });
export const num = (title: string, bar = false, scale?: string): Column => ({ title, numeric: true, bar, scale });
const from = (p: { caller?: string; call_site?: string }) => name(p.call_site || p.caller || "–");
const place = (p: { where: string; caller?: string; call_site?: string }) => name(p.where) + (p.call_site || p.caller ? ` in ${from(p)}` : "");
const source = (r: Result, key: string) => name(r.source_names[key] ?? r.source_names[`os-service:${key}`] ?? key);

export function section(id: string, title: string, lead: string, ...content: (HTMLElement | null)[]): HTMLElement {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), lead ? el("p", { class: "lead" }, lead) : null, ...content);
}

export function program(r: Result): string { return name(String(r.provenance?.PROGRAM ?? r.trace), 80); }

export function facts(r: Result): HTMLElement {
  const fact = (label: string, value: string, n?: number | null) => el("div", {}, el("dt", {}, label), el("dd", typeof n === "number" ? { "data-ns": String(n) } : {}, value));
  const [low, high] = r.approximated_bounds_ns, unknown = r.noise_not_measured !== undefined;
  return el("dl", { class: "facts" }, fact("Run time", time(r.measured_ns), r.measured_ns),
    ...(unknown ? [] : [fact("Without noise", r.answer.open ? "open" : time(r.approximated_ns), r.answer.open ? null : r.approximated_ns), fact("between", `${time(low)} and ${time(high)}`),
      fact("Stolen, mean of ranks", time(r.local_noise_ns.mean), r.local_noise_ns.mean), fact("Amplification", r.answer.open ? "open" : factor(r.amplification))]));
}

export function quality(r: Result): HTMLElement {
  const p = r.provenance ?? {}, own = p.OWN_COST_NS;
  const row = (a: string, b: string | undefined | null) => (b ? [el("dt", {}, a), el("dd", {}, name(b, 600))] : []);
  const exporters = [...new Set(r.per_rank.map((x: any) => x.measured_by).filter(Boolean))].join(", ");
  const unknownRanks = r.per_rank.filter((x: any) => x.measured_by === "none").length;
  const dropped = p.EVENTS_DROPPED === undefined ? undefined : Number(p.EVENTS_DROPPED) === 0 ? "none" : `${count(Number(p.EVENTS_DROPPED))} noise events${p.EVENTS_DROPPED_NS ? `, ${time(Number(p.EVENTS_DROPPED_NS))} in all` : ""}`;
  const open = (r.open_questions ?? []).map((q: any) => `${q.name}${q.change_ns === null ? "" : ` (at most ${time(q.change_ns)})`}`).join("; ");
  const severe = r.explained_warnings.filter((w: any) => w.severity === "severe");
  const hosts = r.hosts.map((h: any) => h.host);
  return section("quality", "Data quality", "", r.answer.open ? el("p", { class: "banner" }, `The trace leaves open how much the noise cost: between ${time(r.answer.cost_bounds_ns[0])} and ${time(r.answer.cost_bounds_ns[1])}. Delays on this page, and the timeline without noise, are one of the possibilities between these bounds.`) : null, el("dl", { class: "pairs" },
    ...row("Measured by", r.noise_not_measured ? `nothing: ${r.noise_not_measured}` : exporters || p.EXPORTER || "another tool; the trace does not say which"),
    ...row("Ranks without data", unknownRanks > 0 && !r.noise_not_measured ? `${count(unknownRanks)} of ${count(r.ranks)}: their noise is unknown` : null),
    ...row("Incomplete", p.INCOMPLETE === "yes" ? `yes: ${[p.RANKS_UNFINISHED ? `ranks that never finalised: ${p.RANKS_UNFINISHED}` : "", p.RANKS_MISSING ? `ranks missing: ${p.RANKS_MISSING}` : ""].filter(Boolean).join("; ") || "see the warnings"}` : null),
    ...row("Events lost", dropped), ...row("Clock error", hosts.length === 1 ? "no correction needed: one host" : p.CLOCK_ERROR_NS ? `at most ${time(Number(p.CLOCK_ERROR_NS))} between hosts` : "not stated by the trace"),
    ...row("Tracing itself took", own && Number.isFinite(Number(own)) ? `${time(Number(own))} on all ranks together` : "not stated by the trace"),
    ...row("Conditional", r.conditional ? `yes: without the noise the program may have behaved differently${open ? `: ${open}` : " (see the warnings)"}` : "no"),
    ...row("Warnings", r.warnings.length ? `${r.warnings.length}, each explained at the end${severe.length ? `; severe: ${severe.map((w: any) => w.name).join(", ")}` : ""}` : "none"),
    ...row(hosts.length > 1 ? "Hosts" : "Host", hosts.slice(0, 12).join(", ") + (hosts.length > 12 ? ` and ${hosts.length - 12} more` : "")), ...row("Trace", r.trace)));
}

const saves = (a: Amount) => `${time(a.value)} (${time(a.interval[0])} to ${time(a.interval[1])}), ${a.percent_of_run_time.toFixed(1)} % of the run`;

function suggestion(a: Suggestion, at: number): HTMLElement {
  return el("article", { class: "card" }, el("h3", {}, `${at + 1}. ${name(a.title, 300)}`),
    el("p", { class: "saves", "data-ns": String(a.saves.value) }, `Saves ${saves(a.saves)}${a.saves.conditional ? "; conditional" : ""}`),
    a.evidence.length ? el("ul", { class: "evidence" }, ...a.evidence.map((e) => el("li", {}, name(e, 1000)))) : null,
    ...a.actions.map((action, i) => el("div", { class: "action" }, el("p", {}, `${i > 0 ? "Or " : ""}${name(action.how, 300)}:`),
      action.commands.length ? el("pre", { tabindex: "0" }, action.commands.map((c) => name(c, 1000)).join("\n")) : null, action.note ? el("p", { class: "note" }, name(action.note, 1000)) : null)),
    a.overlaps.length ? el("p", { class: "note" }, `Some of its noise is also in ${a.overlaps.map((o) => o + 1).join(", ")}: the savings do not add up.`) : null);
}

export function advice(r: Result): HTMLElement | null {
  const a = r.advice;
  if (!a) return null;
  return section("advice", "What to change", name(a.answer, 800), ...a.suggestions.map(suggestion),
    a.suggestions.length ? el("p", { class: "note" }, `Each suggestion is a scenario that was replayed, with bounds of its own; ${count(a.candidates)} were tried. ${a.together ? `All together would save ${saves(a.together)}.` : ""}`)
      : el("p", { class: "note" }, `${count(a.candidates)} scenarios were replayed.`));
}

// Stolen and delay have bars of one scale: where the second is longer, noise was amplified.
export function causes(r: Result): HTMLElement {
  const open: Cell = { text: "open" }, delay = (cell: Cell) => (r.answer.open ? open : cell);
  const rows = Object.entries<any>(r.sources).filter(([, s]) => s.local_noise_ns.max > 0).sort((a, b) => b[1].share_ns - a[1].share_ns);
  const services = Object.entries<any>(r.services).filter(([, s]) => s.local_ns.max > 0);
  return section("causes", "Noise by source", "Stolen (local noise) is what the kernel took from a rank. Delay (accumulated noise) is how much longer the whole program ran because of it. Amplification is delay by stolen: below 1, noise was absorbed.",
    table("Noise by source", [{ title: "Source" }, num("Stolen, mean of ranks", true, "noise"), num("Delay (share)", true, "noise"), num("of the delay"), num("Stolen, most of a rank"), num("Delay if alone"), num("Amplification")],
      rows.map(([key, s]) => [{ text: source(r, key) }, ns(s.local_noise_ns.mean), delay(ns(s.share_ns)), delay({ text: percent(s.share_ns, r.accumulated_noise_ns) }), ns(s.local_noise_ns.max), delay(ns(s.alone_ns)), delay({ text: factor(s.amplification) })])),
    services.length ? table("Services: work for the program itself, not removed", [{ title: "Service" }, num("Mean of ranks"), num("Most of a rank"), num("Would gain if removed")],
      services.map(([key, s]) => [{ text: name(r.source_names[`os-service:${key}`] ?? key) }, ns(s.local_ns.mean), ns(s.local_ns.max), ns(s.alone_ns)])) : null);
}

export function where(r: Result): HTMLElement {
  const title = "Ranks and hosts";
  if (r.noise_not_measured) return section("ranks", title, "", table("Ranks", [{ title: "Rank" }, num("Run time", true)], r.per_rank.map((x: any) => [{ text: String(x.rank) }, ns(x.measured_ns)]), 16));
  return section("ranks", title, "", r.ranks >= 8 ? rankProfile(r) : null,
    table("Hosts", [{ title: "Host" }, num("Ranks"), num("Stolen, mean"), num("Stolen, most"), num("Delay caused here"), num("Latest delay at the end")],
      r.hosts.map((h: any) => [{ text: name(h.host) }, { text: count(h.ranks.length) }, ns(h.local_noise_ns.mean), ns(h.local_noise_ns.max), ns(h.caused_delay_ns), ns(h.delay_at_end_ns)]), 8),
    table("Ranks", [{ title: "Rank" }, num("Run time"), num("Stolen", true, "noise"), num("Delay at the end", true, "noise"), num("Without noise")],
      r.per_rank.map((x: any) => [{ text: String(x.rank) }, ns(x.measured_ns), ns(x.local_noise_ns), ns(x.accumulated_noise_ns), ns(x.approximated_ns)]), 16));
}

function shower(label: string, act: () => void): Cell {
  const node = el("button", { type: "button", "aria-label": label }, "Show");
  node.addEventListener("click", act);
  return { text: "", node };
}

function toTimeline(act: () => void): void {
  act();
  const canvas = document.querySelector<HTMLElement>("#timeline canvas");
  document.getElementById("timeline")?.scrollIntoView({ block: "start" });
  canvas?.focus({ preventScroll: true });
}

export function timeline(r: Result, view: TimelineView): HTMLElement {
  const t = r.timeline!, d = t.delays, most = 60;
  const listed = d.rank.slice(0, most).map((rank, i) => [{ text: name(t.places[d.place[i]].where) }, { text: String(rank) }, ns(d.leave_ns[i]), ns(d.growth_ns[i]), { text: view.origin(i) || "–" },
    shower(`Show the delay of rank ${rank} at ${time(d.leave_ns[i])} with its origin`, () => toTimeline(() => view.choose(i)))]);
  return section("timeline", "Timeline", r.noise_not_measured ? "The measured run. What it would have been without noise is unknown." : "Measured above, the run without noise below. Both panels begin with the same point of the program. Click a call in which a delay grew, and follow it to its origin.", view.root,
    listed.length ? table(`Where delays came from: the ${d.rank.length > most ? `${most} of ${count(d.rank.length)} ` : ""}calls in which a rank's delay grew most`, [{ title: "Delay grew in" }, num("Rank"), num("At"), num("Growth", true), { title: "Greatest noise on the way back" }, { title: "Timeline" }], listed, 6) : null);
}

export function path(r: Result): HTMLElement | null {
  if (!r.critical_path) return null;
  if (r.noise_not_measured) {
    const { before } = r.critical_path;
    return section("path", "Critical path", `${time(before.length_ns)} with ${count(before.hops)} changes of rank.`, el("div", { class: "beside" },
      table("On the path, by place", [{ title: "Place" }, num("Measured", true)], before.by_place.map((p: any) => [{ text: place(p) }, ns(p.ns)]), 8),
      table("On the path, by rank", [{ title: "Rank" }, num("Measured", true)], before.by_rank.map((p: any) => [{ text: String(p.rank) }, ns(p.ns)]), 8)));
  }
  const { before, after } = r.critical_path, key = (p: any) => JSON.stringify([p.where, p.caller, p.call_site]);
  const then = new Map<string, number>(after.by_place.map((p: any) => [key(p), p.ns])), thenRank = new Map<number, number>(after.by_rank.map((p: any) => [p.rank, p.ns]));
  return section("path", "Critical path before and after", `Measured: ${time(before.length_ns)} with ${count(before.hops)} changes of rank. Without noise: ${time(after.length_ns)} with ${count(after.hops)}.`,
    el("div", { class: "beside" }, table("On the path, by place", [{ title: "Place" }, num("Measured", true, "path"), num("Without noise", true, "path")], before.by_place.map((p: any) => [{ text: place(p) }, ns(p.ns), ns(then.get(key(p)) ?? 0)]), 8),
    table("On the path, by rank", [{ title: "Rank" }, num("Measured", true, "path"), num("Without noise", true, "path")], before.by_rank.map((p: any) => [{ text: String(p.rank) }, ns(p.ns), ns(thenRank.get(p.rank) ?? 0)]), 8)));
}

export function heat(r: Result, view: TimelineView): HTMLElement {
  const go = (begin: number, end: number) => toTimeline(() => view.show(begin, end));
  return section("heat", "Heat maps", "", heatMap(r.timeline!, "noise", go), heatMap(r.timeline!, "delay", go));
}

export function durations(r: Result): HTMLElement | null {
  return r.durations?.length ? section("durations", "Durations of noise events", "", distributions(r)) : null;
}

export function events(r: Result, view: TimelineView | null): HTMLElement | null {
  if (!r.costliest?.length) return null;
  const go = (e: any) => (view ? [shower(`Show the noise event of rank ${e.rank} at ${time(e.at_ns)}`, () => toTimeline(() => view.show(e.at_ns - 2 * e.duration_ns, e.at_ns + 3 * e.duration_ns)))] : []);
  return section("events", "Costliest noise events", "What each alone adds to the run without noise. The costs do not add up.",
    table("Costliest noise events", [{ title: "Process or device" }, { title: "Source" }, num("Rank"), num("At"), num("Lasted"), num("Cost", true), { title: "Hit in" }, ...(view ? [{ title: "Timeline" }] : [])],
      r.costliest.map((e: any) => [{ text: name(e.culprit) }, { text: source(r, e.source) }, { text: String(e.rank) }, ns(e.at_ns), ns(e.duration_ns), ns(e.cost_ns), { text: place(e) }, ...go(e)]), 10));
}

export function culprits(r: Result): HTMLElement | null {
  if (!r.by_culprit?.length) return null;
  return section("culprits", "Culprits", "Processes, devices and softirqs, by the delay that they caused.",
    table("Culprits", [{ title: "Process or device" }, { title: "Source" }, { title: "Mostly on" }, num("Delay", true), num("Stolen, all ranks"), num("Events"), num("Ranks")],
      r.by_culprit.map((c: any) => [{ text: name(c.culprit) }, { text: source(r, c.source) }, { text: name(c.host || "–") }, ns(c.delay_ns), ns(c.local_ns), { text: count(c.events) }, { text: count(c.ranks) }]), 10));
}

export function operations(r: Result): HTMLElement | null {
  const measured = !r.noise_not_measured, sites = r.call_sites?.length
    ? table("Call sites, sums over all ranks", [{ title: "Operation" }, { title: "Call site" }, num("Calls"), num("Time in calls"), ...(measured ? [num("Growth of delay")] : [])],
      r.call_sites.map((c: any) => [{ text: name(c.operation) }, { text: name(c.call_site) }, { text: count(c.calls) }, ns(c.measured_ns), ...(measured ? [ns(c.delay_ns)] : [])]), 10) : null;
  const places = measured && r.attribution?.by_place?.length
    ? table(`Delay by place: where the delay of rank ${r.attribution.paid_on_rank}, the last to end, grew`, [{ title: "Operation or region" }, { title: "Called from" }, num("Delay", true)],
      r.attribution.by_place.map((p: any) => [{ text: name(p.where) }, { text: from(p) }, ns(p.ns)]), 10) : null;
  return places || sites ? section("operations", "MPI operations and call paths", "", places, sites) : null;
}

export function absorbed(r: Result): HTMLElement | null {
  const p = r.propagation;
  if (r.noise_not_measured || !p || !p.local_ns) return null;
  const row = (text: string, value: number): Cell[] => [{ text }, ns(value), { text: percent(value, p.local_ns) }];
  return section("absorbed", "What was absorbed, and why", `Waiting for others brought ${time(p.imported_ns)} of delay; all ranks together end ${time(p.accumulated_on_all_ranks_ns)} later.`,
    table("What became of the noise of all ranks", [{ title: "Noise" }, num("Time", true), num("of all")], [row("Stolen from all ranks", p.local_ns), row("Absorbed: hit while the rank waited anyway", p.waiting_ns),
      row("Absorbed: something else was later on its way to the end", p.overtaken_ns), row("Had no place between its events", p.dropped_ns), row("Propagated to the end of the program", p.reached_ns)]));
}

export function warnings(r: Result): HTMLElement | null {
  if (!r.explained_warnings.length) return null;
  return section("warnings", "Warnings", "", ...r.explained_warnings.map((w: any) => el("details", { class: `warning ${w.severity}`, ...(w.severity === "severe" ? { open: "" } : {}) },
    el("summary", {}, el("b", {}, name(w.name)), ` ${w.severity}${w.conditional ? ", conditional" : ""}: `, name(w.text, 400)), el("p", {}, w.help))));
}
