// SPDX-License-Identifier: BSD-3-Clause
// The page, from top to bottom. It renders the JSON and computes no result.
import { distributions, heatMap } from "./charts";
import { open, Result } from "./data";
import { Cell, count, el, factor, name, percent, table, time } from "./format";
import { TimelineView } from "./view";

const ns = (value: number | null | undefined): Cell => ({ text: time(value), ns: value ?? undefined });
const num = (title: string, bar = false) => ({ title, numeric: true, bar });
const from = (p: { caller?: string; call_site?: string }) => name(p.call_site || p.caller || "–");
const place = (p: { where: string; caller?: string; call_site?: string }) => name(p.where) + (p.call_site || p.caller ? ` in ${from(p)}` : "");

function section(id: string, title: string, lead: string, ...content: (HTMLElement | null)[]): HTMLElement {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), lead ? el("p", { class: "lead" }, lead) : null, ...content);
}

function answer(r: Result): HTMLElement {
  const fact = (label: string, value: string, n?: number) => el("div", {}, el("dt", {}, label), el("dd", n === undefined ? {} : { "data-ns": String(n) }, value));
  const [low, high] = r.approximated_bounds_ns, unknown = r.noise_not_measured !== undefined;
  return el("header", {}, el("p", { class: "kicker" }, `Poltergeist report · ${name(String(r.provenance?.PROGRAM ?? r.trace), 80)} · ${count(r.ranks)} rank${r.ranks === 1 ? "" : "s"}`),
    el("h1", {}, name(r.answer.sentence, 600)),
    el("dl", { class: "facts" }, fact("Run time", time(r.measured_ns), r.measured_ns),
      ...(unknown ? [] : [fact("Without noise", r.answer.open ? "open" : time(r.approximated_ns), r.approximated_ns), fact("between", `${time(low)} and ${time(high)}`),
        fact("Stolen, mean of ranks", time(r.local_noise_ns.mean), r.local_noise_ns.mean), fact("Amplification", factor(r.amplification))])));
}

function quality(r: Result): HTMLElement {
  const p = r.provenance ?? {}, own = Number(p.OWN_COST_NS);
  const row = (a: string, b: string | undefined) => (b ? [el("dt", {}, a), el("dd", {}, name(b, 300))] : []);
  const exporters = [...new Set(r.per_rank.map((x: any) => x.measured_by).filter(Boolean))].join(", ");
  const conditional = r.explained_warnings.filter((w: any) => w.conditional);
  return section("quality", "How sure this is", "", el("dl", { class: "pairs" },
    ...row("Measured by", r.noise_not_measured ? `nothing: ${r.noise_not_measured}` : exporters || p.EXPORTER || "another tool; the trace does not say"),
    ...row("Events lost", p.EVENTS_DROPPED), ...row("Clock error", p.CLOCK_ERROR_NS ? time(Number(p.CLOCK_ERROR_NS)) : undefined),
    ...row("Tracing itself took", Number.isFinite(own) && p.OWN_COST_NS ? `${time(own)} on all ranks together` : undefined),
    ...row("Conditional", r.conditional ? `yes: without the noise the program may have behaved differently (${conditional.map((w: any) => w.name).join(", ") || "see the warnings"})` : "no"),
    ...row("Warnings", r.warnings.length ? `${r.warnings.length}, each explained at the end` : "none"), ...row("Host", r.hosts.map((h: any) => h.host).slice(0, 12).join(", "))));
}

function advice(r: Result): HTMLElement | null {
  if (!Array.isArray(r.advice)) return null;
  if (r.advice.length === 0) return section("advice", "What to change", "Nothing to gain here: no change that was replayed saves more than its own uncertainty.");
  return section("advice", "What to change", "Each suggestion is a scenario that was replayed.", ...r.advice.map((a: any) => el("article", { class: "card" },
    el("h3", {}, name(a.title, 300)), el("p", { class: "saves", "data-ns": String(a.saves_ns) }, `Saves ${time(a.saves_ns)} (${time(a.saves_bounds_ns[0])} to ${time(a.saves_bounds_ns[1])}, ${Number(a.saves_percent).toFixed(1)} % of the run)`),
    el("p", {}, name(Array.isArray(a.evidence) ? a.evidence.join("; ") : String(a.evidence ?? ""), 1000)), a.command ? el("pre", { tabindex: "0" }, name(a.command, 1000)) : null)));
}

function causes(r: Result): HTMLElement {
  const rows = Object.entries<any>(r.sources).filter(([, s]) => s.local_noise_ns.max > 0).sort((a, b) => b[1].share_ns - a[1].share_ns);
  const services = Object.entries<any>(r.services).filter(([, s]) => s.local_ns.max > 0);
  return section("causes", "What it was", "Stolen is what the kernel took from a rank. Delay is how much longer the whole program ran because of it.",
    table("Noise by source", [{ title: "Source" }, num("Stolen, mean"), num("Stolen, most"), num("Delay (share)", true), num("of the delay"), num("Alone"), num("Amplification")],
      rows.map(([key, s]) => [{ text: name(r.source_names[key] ?? key) }, ns(s.local_noise_ns.mean), ns(s.local_noise_ns.max), ns(s.share_ns),
        { text: percent(s.share_ns, r.accumulated_noise_ns) }, ns(s.alone_ns), { text: factor(s.amplification) }])),
    services.length ? table("Services: work for the program itself, not removed", [{ title: "Service" }, num("Mean of ranks"), num("Most"), num("Would gain if removed")],
      services.map(([key, s]) => [{ text: name(r.source_names[`os-service:${key}`] ?? key) }, ns(s.local_ns.mean), ns(s.local_ns.max), ns(s.alone_ns)])) : null);
}

function where(r: Result): HTMLElement {
  if (r.noise_not_measured)
    return section("ranks", "Rank by rank, host by host", "", table("Ranks", [{ title: "Rank" }, num("Run time", true)], r.per_rank.map((x: any) => [{ text: String(x.rank) }, ns(x.measured_ns)]), 16));
  return section("ranks", "Rank by rank, host by host", "",
    table("Hosts", [{ title: "Host" }, num("Ranks"), num("Stolen, mean"), num("Stolen, most"), num("Delay caused here"), num("Latest delay at the end")],
      r.hosts.map((h: any) => [{ text: name(h.host) }, { text: count(h.ranks.length) }, ns(h.local_noise_ns.mean), ns(h.local_noise_ns.max), ns(h.caused_delay_ns), ns(h.delay_at_end_ns)])),
    table("Ranks", [{ title: "Rank" }, num("Run time"), num("Stolen", true), num("Delay at the end", true), num("Without noise")],
      r.per_rank.map((x: any) => [{ text: String(x.rank) }, ns(x.measured_ns), ns(x.local_noise_ns), ns(x.accumulated_noise_ns), ns(x.approximated_ns)]), 16));
}

function path(r: Result): HTMLElement | null {
  if (!r.critical_path) return null;
  const { before, after } = r.critical_path, key = (p: any) => JSON.stringify([p.where, p.caller, p.call_site]);
  const then = new Map<string, number>(after.by_place.map((p: any) => [key(p), p.ns])), thenRank = new Map<number, number>(after.by_rank.map((p: any) => [p.rank, p.ns]));
  return section("path", "Critical path, before and after", `Measured: ${time(before.length_ns)} with ${count(before.hops)} changes of rank. Without noise: ${time(after.length_ns)} with ${count(after.hops)}.`,
    table("On the path, by place", [{ title: "Place" }, num("Measured", true), num("Without noise")], before.by_place.map((p: any) => [{ text: place(p) }, ns(p.ns), ns(then.get(key(p)) ?? 0)]), 8),
    table("On the path, by rank", [{ title: "Rank" }, num("Measured", true), num("Without noise")], before.by_rank.map((p: any) => [{ text: String(p.rank) }, ns(p.ns), ns(thenRank.get(p.rank) ?? 0)]), 8));
}

function events(r: Result): HTMLElement | null {
  if (!r.costliest?.length) return null;
  return section("events", "Costliest noise events", "What each alone adds to the run without noise. The costs do not add up.",
    table("Costliest noise events", [{ title: "Process or device" }, { title: "Source" }, num("Rank"), num("At"), num("Lasted"), num("Cost", true), { title: "Hit in" }],
      r.costliest.map((e: any) => [{ text: name(e.culprit) }, { text: name(r.source_names[e.source] ?? e.source) }, { text: String(e.rank) }, ns(e.at_ns), ns(e.duration_ns), ns(e.cost_ns), { text: place(e) }]), 10));
}

function culprits(r: Result): HTMLElement | null {
  if (!r.by_culprit?.length) return null;
  return section("culprits", "Who it was", "Processes, devices and softirqs, by the delay that they caused.",
    table("Culprits", [{ title: "Process or device" }, { title: "Source" }, { title: "Mostly on" }, num("Delay", true), num("Stolen, all ranks"), num("Events"), num("Ranks")],
      r.by_culprit.map((c: any) => [{ text: name(c.culprit) }, { text: name(r.source_names[c.source] ?? r.source_names[`os-service:${c.source}`] ?? c.source) }, { text: name(c.host || "–") }, ns(c.delay_ns), ns(c.local_ns), { text: count(c.events) }, { text: count(c.ranks) }]), 10));
}

function operations(r: Result): HTMLElement | null {
  if (!r.attribution?.by_place?.length && !r.call_sites?.length) return null;
  return section("operations", "MPI operations and call paths", `Where the delay of rank ${r.attribution.paid_on_rank}, the last to end, grew.`,
    table("Delay by place", [{ title: "Operation or region" }, { title: "Called from" }, num("Delay", true)], r.attribution.by_place.map((p: any) => [{ text: name(p.where) }, { text: from(p) }, ns(p.ns)]), 10),
    r.call_sites?.length ? table("Call sites, sums over all ranks", [{ title: "Operation" }, { title: "Call site" }, num("Calls"), num("Time in calls"), num("Growth of delay")],
      r.call_sites.map((c: any) => [{ text: name(c.operation) }, { text: name(c.call_site) }, { text: count(c.calls) }, ns(c.measured_ns), ns(c.delay_ns)]), 10) : null);
}

function absorbed(r: Result): HTMLElement | null {
  const p = r.propagation;
  if (!p || !p.local_ns) return null;
  const row = (text: string, value: number): Cell[] => [{ text }, ns(value), { text: percent(value, p.local_ns) }];
  return section("absorbed", "What was absorbed, and why", `Waiting for others brought ${time(p.imported_ns)} of delay; all ranks together end ${time(p.accumulated_on_all_ranks_ns)} later.`,
    table("What became of the noise of all ranks", [{ title: "Noise" }, num("Time", true), num("of all")], [row("Stolen from all ranks", p.local_ns), row("Absorbed: hit while the rank waited anyway", p.waiting_ns),
      row("Absorbed: something else was later on its way to the end", p.overtaken_ns), row("Had no place between its events", p.dropped_ns), row("Propagated to the end of the program", p.reached_ns)]));
}

function warnings(r: Result): HTMLElement | null {
  if (!r.explained_warnings.length) return null;
  return section("warnings", "Warnings", "", ...r.explained_warnings.map((w: any) => el("details", { class: `warning ${w.severity}`, ...(w.severity === "severe" ? { open: "" } : {}) },
    el("summary", {}, el("b", {}, name(w.name)), ` ${w.severity}: `, name(w.text, 400)), el("p", {}, w.help))));
}

async function main(): Promise<void> {
  const r = await open("data"), t = r.timeline;
  const view = t ? new TimelineView(r) : null;
  const sections = [quality(r), advice(r), r.noise_not_measured ? null : causes(r), where(r),
    view ? section("timeline", "Timeline", "Measured above, the run without noise below. Both panels begin with the same point of the program.", view.root) : null, path(r),
    t && !r.noise_not_measured ? section("heat", "When and where", "", heatMap(t, "noise"), heatMap(t, "delay")) : null,
    r.durations?.length ? section("durations", "How long the noise events were", "", distributions(r)) : null, events(r), culprits(r), operations(r), absorbed(r), warnings(r)];
  const shown = sections.filter((s): s is HTMLElement => s !== null);
  const links = shown.map((s) => el("li", {}, el("a", { href: `#${s.id}` }, s.querySelector("h2")?.textContent ?? "")));
  document.title = `Poltergeist: ${name(String(r.provenance?.PROGRAM ?? r.trace), 60)}`;
  const page = document.getElementById("page") as HTMLElement;
  page.replaceChildren(answer(r), el("nav", { "aria-label": "Sections" }, el("ul", {}, ...links)), ...shown,
    el("footer", {}, `Schema ${r.schema}. Every number here stands in the JSON of polter replay --attribution --timeline.`));
  view?.paint();
  page.dataset.ready = "true";
  Object.assign(window, { polter: { result: r, view } });  // for scripts and the tests
}

main().catch((error) => {
  const page = document.getElementById("page") as HTMLElement;
  page.replaceChildren(el("h1", {}, "This report cannot be shown"), el("p", {}, `${error}. The browser must support DecompressionStream (Chrome 80, Firefox 113, Safari 16.4).`));
});
