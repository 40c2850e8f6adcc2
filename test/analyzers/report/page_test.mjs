// SPDX-License-Identifier: BSD-3-Clause
// page_test.mjs BUILD MODULES [all]: polter's reports in Chromium. No error, no request, numbers as in the JSON, zoom, hover, the way back to
// an origin, keyboard, three widths, hostile names, axe in light and dark. Screenshots stay in BUILD/test/analyzers/report/screenshots.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { browser, load, modules } from "./browser.mjs";

const [build, folder, all] = process.argv.slice(2), source = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const axe = readFileSync(modules(folder).resolve("axe-core/axe.min.js"), "utf8");
const pictures = join(build, "test/analyzers/report/screenshots");
mkdirSync(pictures, { recursive: true });
const work = mkdtempSync(join(tmpdir(), "polter-report-"));
const data = /(<script id="data"[^>]*>)([^<]*)(<\/script>)/;

const program = (name) => join(build, "test", name);
function report(name, writer, ...words) {
  const trace = join(work, name), file = join(work, `${name}.html`);
  execFileSync(program(writer), words.map((w) => (w === "TRACE" ? trace : w)));
  execFileSync(join(build, "polter"), ["report", "-q", trace, "-o", file]);
  return file;
}
function opened(file) {
  return JSON.parse(gunzipSync(Buffer.from(data.exec(readFileSync(file, "utf8"))[2], "base64")).toString());
}
// The same page with another run.
function changed(file, name, change) {
  const content = opened(file), to = join(work, `${name}.html`);
  change(content.runs[0]);
  writeFileSync(to, readFileSync(file, "utf8").replace(data, (_, a, __, c) => a + gzipSync(JSON.stringify(content)).toString("base64") + c));
  return to;
}

const { context: start, profile } = await browser(folder);
const faults = [];
async function clean(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"] }));
  assert.deepEqual(found.violations.map((v) => `${what}: ${v.id} ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].failureSummary}`), []);
}

const units = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };
// What a text such as "+1.32 s" can stand for; undefined if it is no time.
function meant(text) {
  const found = /^([+−]?)(\d+)(?:\.(\d+))? (ns|µs|ms|s)$/.exec(text);
  if (!found) return text === "0" ? [0, 0] : undefined;
  const [, sign, whole, part = "", unit] = found, size = Number(`${whole}.${part}`) * units[unit], half = 0.5000001 * units[unit] / 10 ** part.length;
  return sign === "−" ? [-size - half, -size + half] : [size - half, size + half];
}

// Every number of the page stands in its data, and is shown as what it is: each cell that has nanoseconds, and the answer.
async function sameNumbers(page, content, least = 20) {
  const numbers = new Set(["0"]);
  (function walk(v) { if (typeof v === "number") numbers.add(String(v)); else if (v && typeof v === "object") Object.values(v).forEach(walk); })(content);
  const shown = await page.$$eval("[data-ns]", (cells) => cells.map((c) => [c.dataset.ns, (c.querySelector("bdi") ?? c).textContent, c.className]));
  assert.ok(shown.length > least, "hardly any number is shown");
  assert.deepEqual(shown.filter(([ns]) => !numbers.has(ns)), []);
  assert.deepEqual(shown.filter(([ns, text, kind]) => {
    if (kind === "saves") return false;  // a sentence
    const range = meant(text);
    return !range || Number(ns) < range[0] || Number(ns) > range[1];
  }), []);
}
async function sameCauses(page, result) {
  const cells = await page.$$eval("#causes tbody tr", (rows) => rows.map((r) => [...r.querySelectorAll("[data-ns]")].map((c) => Number(c.dataset.ns))));
  const first = Object.values(result.sources).sort((a, b) => b.share_ns - a.share_ns)[0];
  assert.deepEqual(cells[0], [first.local_noise_ns.mean, first.share_ns, first.local_noise_ns.max, first.alone_ns]);
  assert.equal(await page.textContent("h1"), result.answer.sentence);
}

async function timeline(page) {
  const view = () => page.evaluate(() => window.polter.view.view());
  const canvas = page.locator(".stage canvas");
  await canvas.scrollIntoViewIfNeeded();
  const [begin, end] = await view();
  await canvas.focus();
  await page.keyboard.press("+");
  const zoomed = await view();
  assert.ok(Math.abs(zoomed[1] - zoomed[0] - (end - begin) / 2) < 2, "the key + halves the view");
  await page.keyboard.press("ArrowRight");
  assert.ok((await view())[0] > zoomed[0], "an arrow moves the view");
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 20);
  await page.mouse.wheel(0, -300);
  await page.waitForTimeout(60);
  assert.ok((await view())[1] - (await view())[0] < zoomed[1] - zoomed[0], "the wheel zooms in");
  const before = await view();
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 - 60, box.y + 20, { steps: 4 });
  await page.mouse.up();
  assert.ok((await view())[0] > before[0], "dragging moves the view");
  await page.keyboard.press("0");
  assert.deepEqual(await view(), [begin, end]);
  await page.keyboard.press("n");
  await page.waitForTimeout(60);
  const said = await page.textContent("#timeline-status");
  assert.match(said, /Delay of rank \d+ grew by .* Origin: rank \d+/);
  const way = await page.evaluate(() => {
    const d = window.polter.result.timeline.delays;
    return [d.rank[0], d.origins.rank[d.origin[0]]];
  });
  assert.ok(said.includes(`Delay of rank ${way[0]} `) && said.includes(`Origin: rank ${way[1]},`));
  // The same by the mouse: what the canvas says of a call with a delay, and a click on it.
  await page.keyboard.press("Escape");
  await page.waitForTimeout(60);
  const hit = await page.evaluate(() => window.polter.view.placeOf(0));
  const there = await canvas.boundingBox();
  await page.mouse.move(there.x + hit.x, there.y + hit.y);
  assert.match(await page.textContent(".tip"), /rank \d+/);
  await page.mouse.click(there.x + hit.x, there.y + hit.y);
  await page.waitForTimeout(60);
  assert.match(await page.textContent("#timeline-status"), /Delay of rank \d+ grew by .* Origin: rank \d+/);
  await canvas.focus();
  await page.keyboard.press("Escape");
  await page.keyboard.press("0");
}

// From the whole run to a single noise event: the culprit on hover.
async function noiseEvent(page) {
  await page.locator("#events button").first().click();
  await page.waitForTimeout(60);
  const [where, event] = await page.evaluate(() => {
    const { result, view } = window.polter, e = result.costliest[0], [begin, end] = view.view(), canvas = document.querySelector(".stage canvas");
    const rows = result.timeline.rows, height = Math.min(320, rows * 44);
    return [{ x: 74 + ((e.at_ns + e.duration_ns / 2 - begin) / (end - begin)) * (canvas.clientWidth - 82), y: 6 + ((e.rank + 0.5) / rows) * height, span: end - begin }, e];
  });
  assert.ok(where.span <= 6 * event.duration_ns + 200, "the view is about the event");
  const box = await page.locator(".stage canvas").boundingBox();
  await page.mouse.move(box.x + where.x, box.y + where.y);
  const said = await page.textContent(".tip");
  assert.ok(said.includes(event.culprit) && said.includes(`rank ${event.rank}`), `${said} does not name ${event.culprit}`);
  await page.locator(".stage canvas").focus();
  await page.keyboard.press("0");
}

// A thousand ranks: as the small run's, again and again.
function thousand(r) {
  const t = r.timeline, rows = t.rows, again = (list) => Array.from({ length: 1024 }, (_, i) => list[i % rows]);
  for (const level of t.levels) {
    for (const key of ["mpi_ns", "waiting_ns", "without_mpi_ns", "without_waiting_ns", "delay_ns"]) level[key] = again(level[key]);
    for (const n of level.noise) n.ns = again(n.ns);
  }
  r.per_rank = again(r.per_rank).map((x, rank) => ({ ...x, rank }));
  t.rows = r.ranks = 1024;
  t.whole_run = false;
  t.delays.rank[0] = 1000;
}

try {
  const small = report("small", "replay/write_random", "1", "TRACE", "6"), content = opened(small), result = content.runs[0];
  // Each width and each colour scheme once; with `all` in more combinations.
  const looks = [[1280, "light"], [390, "dark"], [2560, "light"]];
  if (all) looks.push([390, "light"], [1280, "dark"]);
  for (const [width, scheme] of looks) {
    const context = await start({ viewport: { width, height: 900 }, colorScheme: scheme });
    const page = await load(context, small, faults);
    await sameNumbers(page, content);
    await sameCauses(page, result);
    await timeline(page);
    await noiseEvent(page);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `the page is wider than ${width} pixels`);
    await clean(page, `${width} ${scheme}`);
    await page.screenshot({ path: join(pictures, `small-${width}-${scheme}.png`), fullPage: true });
    await context.close();
  }

  const context = await start({ viewport: { width: 1280, height: 900 } });
  const others = { one_rank: report("one_rank", "replay/write_random", "1", "TRACE", "1") };
  others.unmeasured = changed(small, "unmeasured", (r) => {
    r.noise_not_measured = "the trace has no noise metrics";
    r.answer.sentence = "Unknown, not zero.";
    r.sources = {};
    r.by_culprit = [];
    r.timeline.levels.forEach((l) => (l.noise = []));
    for (const key of ["costliest", "propagation", "advice"]) delete r[key];
    r.durations = [];
  });
  others.incomplete = changed(small, "incomplete", (r) => {
    r.conditional = true;
    r.per_rank[0].local_noise_ns = null;
    r.per_rank[0].measured_by = "none";
    r.provenance = { ...r.provenance, INCOMPLETE: "yes", RANKS_UNFINISHED: "0" };
    for (const key of ["timeline", "durations", "costliest", "critical_path", "propagation"]) delete r[key];
  });
  others.open = changed(small, "open", (r) => (r.answer.open = true));
  const evil = "<script>window.broken=1</script><img src=x onerror=window.broken=1>", long = "x".repeat(10000), odd = "\u0001\u001b[31m\u202Eltr\u2069\"'&";
  others.hostile = changed(small, "hostile", (r) => {
    r.timeline.culprits = r.timeline.culprits.map((_, i) => [evil, long, odd][i % 3]);
    r.timeline.places.forEach((p, i) => (p.where = [evil, long, odd][i % 3]));
    r.by_culprit.forEach((c, i) => Object.assign(c, { culprit: [evil, long, odd][i % 3], host: evil }));
    r.costliest.forEach((c, i) => Object.assign(c, { culprit: [evil, long, odd][i % 3], where: odd }));
    r.provenance = { ...r.provenance, PROGRAM: evil };
    r.answer.sentence = `${evil} ${odd}`;
  });
  others.hostile_trace = report("hostile_trace", "analyzers/export/write_micro", "--hostile", "TRACE");
  for (const [name, file] of Object.entries(others)) {
    const page = await load(context, file, faults), all = () => page.textContent("#page");
    await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
    assert.equal(await page.evaluate(() => window.broken), undefined, name);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: too wide`);
    if (name.startsWith("hostile")) {
      assert.ok(!/[\u0001\u0007\u001b\u202e]/.test(await all()), "control characters reach the page");
      assert.ok((await all()).includes("<script>") && (await all()).includes("(10000 characters)"), name);
    }
    if (name === "hostile") assert.ok((await page.textContent("h1")).startsWith(evil));
    if (name === "incomplete") assert.match(await page.textContent("#quality"), /Ranks without data1 of 6.*Incomplete.*never finalised: 0/s);
    if (name === "unmeasured") assert.ok(!/[Ww]ithout noise(?! is unknown)/.test(await page.textContent("#timeline") + (await page.textContent("#path"))), "a run without noise is shown");
    if (name === "open") assert.match(await page.textContent("#quality"), /leaves open how much/);
    if (name !== "open") await sameNumbers(page, opened(file), 3);
    await page.close();
  }

  // Advice: of a trace that has some.
  const advised = report("advised", "analyzers/export/write_micro", join(source, "test/replay/micro/late_sender.txt"), "TRACE"), advice = opened(advised).runs[0].advice;
  assert.ok(advice.suggestions.length > 0, "no advice to show");
  let page = await load(context, advised, faults);
  for (const one of advice.suggestions) {
    const card = page.locator("#advice article", { hasText: one.title });
    assert.equal(await card.locator(".saves").getAttribute("data-ns"), String(one.saves.value));
    for (const text of [...one.evidence, ...one.actions.flatMap((a) => [a.how, ...a.commands, a.note])]) assert.ok((await card.textContent()).includes(text), text);
    assert.ok((await card.textContent()).includes(`${one.saves.percent_of_run_time.toFixed(1)} % of the run`));
  }
  const order = await page.$$eval("section", (list) => list.map((s) => s.id));
  const expected = ["quality", "advice", "causes", "ranks", "timeline", "path", "heat", "durations", "events", "culprits", "operations", "absorbed", "interference", "variability", "job", "latency", "prediction", "warnings"];
  assert.deepEqual(order, expected.filter((id) => order.includes(id)));
  await clean(page, "advice");
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.screenshot({ path: join(pictures, "print.png"), fullPage: true });
  await page.close();

  // The quality of a job: verdict, reasons and what was known while it ran; names as they are.
  const point = (i) => ({ elapsed_ns: i * 1e8, done: i / 13, verdict: i > 2 ? "slower" : "no basis", no_basis: i > 2 ? null : "nothing was done yet", level: i > 2 ? i / 14 : null, reached_s: i > 3 ? i / 10 : null, usual_s: i > 2 ? i / 13 : null, interval_s: i > 2 ? [i / 14, i / 12] : null, late: i > 2 ? 0.3 : null, run_time_from_rates_s: i > 4 ? 1.31 : null, left_out_error: i > 4 ? 0.02 : null });
  const judged = { job: { application: evil, runtime_ns: 1_300_000_000 }, history: 30, verdict: "slower", no_basis: null, expected: { value: 1, interval: [0.95, 1.05] }, difference: 0.3,
    because: [{ source: "preempt", culprit: "hog", rank: 1, ns: 290_000_000, usual_ns: 1_000_000 }], differences: [{ feature: "calls", value: 77, usual: 100, deviations: -5 }],
    models: [{ inputs: "size and processes", left_out_error: 0.03, components: 0 }, { inputs: "everything", left_out_error: null, components: 0 }],
    online: { interval_ns: 1e8, work: "calls", no_basis: null, points: [...Array(12).keys()].map((i) => point(i + 1)) }, warnings: [] };
  const judgedPage = opened(advised), withJob = join(work, "with_job.html");
  judgedPage.quality = judged;
  writeFileSync(withJob, readFileSync(advised, "utf8").replace(data, (_, a, __, c) => a + gzipSync(JSON.stringify(judgedPage)).toString("base64") + c));
  page = await load(context, withJob, faults);
  const said = await page.textContent("#job");
  for (const text of ["Verdict: slower, because preempt by hog", "Expected from 30 jobs", "30.0 %", "290 ms", "nothing was done yet", "not yet", "−5.0"]) assert.ok(said.includes(text), `${text}: ${said}`);
  assert.equal(await page.evaluate(() => window.broken), undefined, "a job's name is markup");
  assert.equal(await page.locator("#job .plot canvas").count(), 1);
  await clean(page, "quality of a job");
  await page.locator("#job").screenshot({ path: join(pictures, "job.png") });
  await page.close();

  // More ranks: verdicts, the curve, and each number of ranks with the other rules; what has no basis is said.
  const some = (value, low, high) => ({ value, unit: "ns", interval: [low, high], level: 0.95, samples: 40 });
  const forecast = (ranks, basis) => ({ ranks, grid: [ranks / 8, 8], basis, no_basis_because: basis ? [] : ["the methods disagree"], verdict: basis ? `On ${ranks} ranks it costs` : `No basis for ${ranks} ranks`,
    run_time: some(ranks * 1e6, 1e6, 2e6), run_time_without_noise_ns: 61_300_000, accumulated_noise: some(ranks * 1e5, ranks * 9e4, ranks * 12e4), amplification: 3.1, local_noise_ns: { mean: 5 },
    methods: [{ name: "copies", accumulated_noise_ns: ranks * 1e5, why_not: null }, { name: "EMMA", accumulated_noise_ns: null, why_not: "no fit" }, { name: "Tsafrir", accumulated_noise_ns: 22_200_000, why_not: null }] });
  const predictedPage = opened(advised), withPrediction = join(work, "with_prediction.html");
  predictedPage.prediction = { schema: "polter.predict/1", scaling: "weak", measured: { ranks: 64, run_time_without_noise_ns: 60_000_000, accumulated_noise_ns: 4_000_000 }, no_basis_because: [],
    pattern: { name: evil, grid: [8, 8] }, noise: { draws: 40, hosts: 64 }, predictions: [forecast(256, true), forecast(1024, false)], warnings: ["only 12 noise events"] };
  writeFileSync(withPrediction, readFileSync(advised, "utf8").replace(data, (_, a, __, c) => a + gzipSync(JSON.stringify(predictedPage)).toString("base64") + c));
  page = await load(context, withPrediction, faults);
  const more = await page.textContent("#prediction");
  for (const text of ["On 256 ranks it costs", "No basis for 1024 ranks", "Weak scaling", "32 × 8", "25.6 ms", "22.2 ms", "only 12 noise events"]) assert.ok(more.includes(text), `${text}: ${more}`);
  assert.ok(!more.includes("On 1024 ranks it costs"), "a verdict without a basis");
  assert.equal(await page.evaluate(() => window.broken), undefined, "a pattern's name is markup");
  assert.equal(await page.locator("#prediction .plot canvas").count(), 1);
  await clean(page, "prediction");
  await page.locator("#prediction").screenshot({ path: join(pictures, "prediction.png") });
  await page.close();

  // Side by side.
  const compared = join(work, "compared.html");
  execFileSync(join(build, "polter"), ["report", "-q", join(work, "small"), join(work, "one_rank"), "-o", compared]);
  const sides = opened(compared), [comparison] = sides.comparison.comparisons;
  page = await load(context, compared, faults);
  assert.equal(await page.textContent("h1"), comparison.answer);
  await sameNumbers(page, sides);
  const rows = await page.$$eval("#comparison table", (tables) => tables.map((t) => [...t.querySelectorAll("tbody tr")].map((r) => [...r.children].map((c) => c.textContent))));
  for (const [table, list] of [[2, comparison.sources], [3, comparison.culprits]])
    list.slice(0, 8).forEach((row, i) => {
      assert.equal(rows[table][i][0], row.name);
      assert.equal(rows[table][i][5], row.more_than_noise ? "yes" : "no: within its uncertainty");
    });
  assert.equal(await page.textContent("#run h2.answer"), sides.runs[0].answer.sentence);
  await page.selectOption("#side", "1");
  assert.equal(await page.textContent("#run h2.answer"), sides.runs[1].answer.sentence);
  await clean(page, "side by side");
  await page.screenshot({ path: join(pictures, "side-by-side.png"), fullPage: true });
  await page.close();

  // Many ranks: which of them are seen can be chosen, and a delay shows those that it passes.
  page = await load(context, changed(small, "thousand", thousand), faults);
  const ranks = () => page.evaluate(() => window.polter.view.ranks());
  assert.deepEqual(await ranks(), [0, 1024]);
  await page.locator(".stage canvas").focus();
  await page.keyboard.press("Shift+ArrowUp");
  const [first, last] = await ranks();
  assert.equal(last - first, 512);
  await page.keyboard.press("ArrowDown");
  assert.ok((await ranks())[0] > first);
  await page.keyboard.press("n");
  const passed = await ranks();
  assert.ok(passed[0] <= 1000 && passed[1] > 1000 && passed[1] - passed[0] < 1100);
  assert.equal(await page.locator("#ranks tbody").last().locator("tr").count(), 16);
  await page.getByRole("button", { name: "Show all 1\u202f024 rows" }).last().click();
  assert.equal(await page.locator("#ranks tbody").last().locator("tr").count(), 1024);
  await page.screenshot({ path: join(pictures, "thousand.png") });
  await context.close();
  assert.deepEqual(faults, []);
  console.log(`page_test: all passed; screenshots in ${pictures}`);
} finally {
  rmSync(work, { recursive: true, force: true });
  rmSync(profile, { recursive: true, force: true });
}
