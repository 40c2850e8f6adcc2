// SPDX-License-Identifier: BSD-3-Clause
// The page: the answer, of several runs their comparison, then the sections of one run. It renders the data and computes no result.
import { interference, job, latency, prediction, variability } from "./analyzers";
import { comparison } from "./compare";
import { open, Page, Result } from "./data";
import { count, el, name } from "./format";
import * as s from "./sections";
import { TimelineView } from "./view";

interface Shown { result: Result; view: TimelineView | null }

function sections(r: Result): { list: HTMLElement[]; view: TimelineView | null } {
  const view = r.timeline ? new TimelineView(r) : null, measured = !r.noise_not_measured;
  const all = [s.quality(r), s.advice(r), measured ? s.causes(r) : null, s.where(r), view ? s.timeline(r, view) : null, s.path(r),
    view && measured ? s.heat(r, view) : null, s.durations(r), s.events(r, view), s.culprits(r), s.operations(r), s.absorbed(r), interference(r), variability(r), s.warnings(r)];
  return { list: all.filter((one): one is HTMLElement => one !== null), view };
}

function links(list: HTMLElement[]): HTMLElement {
  return el("nav", { "aria-label": "Sections" }, el("ul", {}, ...list.map((one) => el("li", {}, el("a", { href: `#${one.id}` }, one.querySelector("h2")?.textContent ?? "")))));
}

function header(kicker: string, sentence: string, ...further: HTMLElement[]): HTMLElement {
  return el("header", {}, el("p", { class: "kicker" }, kicker), el("h1", {}, name(sentence, 800)), ...further);
}

function kicker(r: Result): string { return `Poltergeist report · ${s.program(r)} · ${count(r.ranks)} rank${r.ranks === 1 ? "" : "s"}`; }

// On paper the colours are the light ones, and everything folded stands open.
function printable(repaint: () => void): void {
  const folded = () => [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
  let opened: HTMLDetailsElement[] = [];
  const colours = (paper: boolean) => {
    document.documentElement.classList.toggle("paper", paper);
    repaint();
    dispatchEvent(new Event("polter-colours"));
  };
  addEventListener("beforeprint", () => {
    opened = folded();
    for (const one of opened) one.open = true;
    colours(true);
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
    colours(false);
  });
}

async function main(): Promise<void> {
  const data: Page = await open("data"), page = document.getElementById("page") as HTMLElement;
  const footer = (r: Result) => el("footer", {}, `Schema ${r.schema}. Every number here stands in the JSON of polter replay --attribution --timeline${r.advice ? ", or of polter advise" : ""}${data.comparison ? ", or of polter compare" : ""}.`);
  const shown: Shown = { result: data.runs[0], view: null };
  const beside = () => [...(data.quality ? [job(data.quality)] : []), ...(data.latency ? [latency(data.latency)] : []), ...(data.prediction ? [prediction(data.prediction)] : [])];
  const run = (index: number): HTMLElement[] => {
    const r = data.runs[index], { list, view } = sections(r);
    if (!data.comparison) list.splice(-1, 0, ...beside());
    Object.assign(shown, { result: r, view });
    return [header(kicker(r), r.answer.sentence, s.facts(r)), links(list), ...list, footer(r)];
  };
  document.title = `Poltergeist: ${name(String(data.runs[0].provenance?.PROGRAM ?? data.runs[0].trace), 60)}`;
  if (!data.comparison) page.replaceChildren(...run(0));
  else {
    const compared = data.comparison, box = el("div", { id: "run" });
    const choice = el("select", { id: "side" }, ...compared.sides.map((side, i) => el("option", { value: String(i) }, `${side.name}: ${name(side.traces[0])}`))) as HTMLSelectElement;
    const fill = () => {
      const parts = run(Number(choice.value));
      const title = parts[0].querySelector("h1") as HTMLElement;
      title.replaceWith(el("h2", { class: "answer" }, title.textContent));
      parts[0] = el("div", {}, ...parts[0].childNodes);
      box.replaceChildren(...parts);
      shown.view?.paint();
    };
    choice.addEventListener("change", fill);
    page.replaceChildren(header(`Poltergeist report · ${compared.sides.map((side) => side.name).join(" against ")}`, compared.comparisons[0].answer), comparison(compared, data.runs),
      el("p", { class: "chooser" }, el("label", { for: "side" }, "In detail: "), choice), box, ...beside());
    fill();
  }
  printable(() => shown.view?.recolour());
  shown.view?.paint();
  page.dataset.ready = "true";
  requestAnimationFrame(() => performance.mark("polter-painted"));
  // For scripts and the tests.
  Object.assign(window, { polter: { data, get result() { return shown.result; }, get view() { return shown.view; } } });
}

main().catch((error) => {
  const page = document.getElementById("page") as HTMLElement;
  page.replaceChildren(el("h1", {}, "This report cannot be shown"), el("p", {}, `${error}. The browser must support DecompressionStream (Chrome 80, Firefox 113, Safari 16.4).`));
});
