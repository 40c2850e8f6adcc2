// SPDX-License-Identifier: BSD-3-Clause
// Several traces side by side: what polter compare found.
import { Compared, Comparison, Result, Row } from "./data";
import { Cell, count, el, name, table, time } from "./format";
import { ns, num, section } from "./sections";

const signed = (value: number) => (value > 0 ? "+" : "") + time(value);

function rowsOf(c: Comparison, title: string, caption: string, rows: (Row | null)[], shown = 8): HTMLElement | null {
  const list = rows.filter((r): r is Row => r !== null);
  if (list.length === 0) return null;
  return table(caption, [{ title }, num(c.a, true, "sides"), num(c.b, true, "sides"), num("Difference"), num("between"), { title: "More than noise?" }],
    list.map((r): Cell[] => [{ text: name(r.name) }, ns(r.a), ns(r.b), { text: signed(r.difference.value), ns: r.difference.value },
      { text: `${signed(r.difference.interval[0])} and ${signed(r.difference.interval[1])}` }, { text: r.more_than_noise ? "yes" : "no: within its uncertainty" }]), shown);
}

function one(c: Comparison, several: boolean): HTMLElement {
  const tables = [rowsOf(c, "Quantity", `${c.b} against ${c.a}`, [c.run_time, c.noise, c.without_noise]), rowsOf(c, "Source", "Delay by source", c.sources),
    rowsOf(c, "Process or device", "Delay by process or device", c.culprits), rowsOf(c, "Rank", "Delay at the end, by rank", c.ranks), rowsOf(c, "Operation", "Delay paid in", c.operations)];
  return el("div", {}, several ? el("h3", {}, name(c.answer, 800)) : null, ...tables,
    c.warnings.length ? el("ul", { class: "note" }, ...c.warnings.map((w) => el("li", {}, name(w, 600)))) : null);
}

export function comparison(compared: Compared, runs: Result[]): HTMLElement {
  const several = compared.comparisons.length > 1;
  return section("comparison", "Side by side", "Each difference has the uncertainty of both sides. What is within it may not be a difference at all.",
    table("The sides", [{ title: "Side" }, { title: "Program" }, num("Ranks"), num("Runs"), num("Run time", true), num("Without noise"), num("Stolen, mean"), { title: "Measured by" }, { title: "On" }, { title: "First trace" }],
      compared.sides.map((s, i) => [{ text: s.name }, { text: name(s.program || "unknown", 80) }, { text: count(s.ranks) }, { text: count(s.traces.length) }, ns(runs[i].measured_ns),
        runs[i].noise_not_measured ? { text: "unknown" } : ns(runs[i].approximated_ns), runs[i].noise_not_measured ? { text: "unknown" } : ns(runs[i].local_noise_ns.mean),
        { text: name(s.measured_by || "–") }, { text: name(s.hosts || "–") }, { text: name(s.traces[0]) }])),
    ...compared.comparisons.map((c) => one(c, several)));
}
