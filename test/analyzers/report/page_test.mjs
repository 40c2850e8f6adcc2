// SPDX-License-Identifier: BSD-3-Clause
// page_test.mjs BUILD MODULES: polter's reports in Chromium. No error, no request, numbers as in the JSON, zoom, hover, the way back to
// an origin, keyboard, three widths, hostile names, axe in light and dark. Screenshots stay in BUILD/test/analyzers/report/screenshots.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { browser, load, modules } from "./browser.mjs";

const [build, folder] = process.argv.slice(2);
const axe = readFileSync(modules(folder).resolve("axe-core/axe.min.js"), "utf8");
const pictures = join(build, "test/analyzers/report/screenshots");
mkdirSync(pictures, { recursive: true });
const work = mkdtempSync(join(tmpdir(), "polter-report-"));
const data = /(<script id="data"[^>]*>)([^<]*)(<\/script>)/;

function report(name, ...program) {
  const trace = join(work, name), file = join(work, `${name}.html`);
  execFileSync(join(build, "test/replay/write_random"), [program[0], trace, program[1]]);
  execFileSync(join(build, "polter"), ["report", "-q", trace, "-o", file]);
  return file;
}
function opened(file) {
  return JSON.parse(gunzipSync(Buffer.from(data.exec(readFileSync(file, "utf8"))[2], "base64")).toString());
}
// The same page with other data.
function changed(file, name, change) {
  const result = opened(file);
  change(result);
  const to = join(work, `${name}.html`);
  writeFileSync(to, readFileSync(file, "utf8").replace(data, (_, a, __, c) => a + gzipSync(JSON.stringify(result)).toString("base64") + c));
  return to;
}

const { context: start, profile } = await browser(folder);
const faults = [];
async function clean(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"] }));
  assert.deepEqual(found.violations.map((v) => `${what}: ${v.id} ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].failureSummary}`), []);
}

// Every number of the page stands in its data: each cell that has nanoseconds, and the answer.
async function sameNumbers(page, result) {
  const numbers = new Set();
  (function walk(v) { if (typeof v === "number") numbers.add(String(v)); else if (v && typeof v === "object") Object.values(v).forEach(walk); })(result);
  numbers.add("0");
  const shown = await page.$$eval("[data-ns]", (cells) => cells.map((c) => c.dataset.ns));
  assert.ok(shown.length > 20, "hardly any number is shown");
  assert.deepEqual(shown.filter((n) => !numbers.has(n)), []);
  const cells = await page.$$eval("#causes tbody tr", (rows) => rows.map((r) => [...r.querySelectorAll("[data-ns]")].map((c) => Number(c.dataset.ns))));
  const first = Object.values(result.sources).sort((a, b) => b.share_ns - a.share_ns)[0];
  assert.deepEqual(cells[0], [first.local_noise_ns.mean, first.local_noise_ns.max, first.share_ns, first.alone_ns]);
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
  const hit = await page.evaluate(() => window.polter.view.hits.find((h) => h.way !== undefined && h.w > 1));
  assert.ok(hit, "no call with a delay is in view");
  const there = await canvas.boundingBox();
  await page.mouse.move(there.x + hit.x + hit.w / 2, there.y + hit.y + 1);
  assert.match(await page.textContent(".tip"), /rank \d+/);
  await page.mouse.click(there.x + hit.x + Math.max(hit.w - 1, hit.w / 2), there.y + hit.y + 1);
  await page.waitForTimeout(60);
  assert.match(await page.textContent("#timeline-status"), /Origin|No noise/);
  await canvas.focus();
  await page.keyboard.press("Escape");
  await page.keyboard.press("0");
}

try {
  const small = report("small", "1", "6");
  const result = opened(small);
  for (const [width, scheme] of [[1280, "light"], [390, "light"], [2560, "light"], [1280, "dark"], [390, "dark"]]) {
    const context = await start({ viewport: { width, height: 900 }, colorScheme: scheme });
    const page = await load(context, small, faults);
    await sameNumbers(page, result);
    await timeline(page);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `the page is wider than ${width} pixels`);
    await clean(page, `${width} ${scheme}`);
    await page.screenshot({ path: join(pictures, `small-${width}-${scheme}.png`), fullPage: true });
    await context.close();
  }

  const context = await start({ viewport: { width: 1280, height: 900 } });
  const others = { one_rank: report("one_rank", "1", "1") };
  others.unmeasured = changed(small, "unmeasured", (r) => {
    r.noise_not_measured = "the trace has no noise metrics";
    r.answer.sentence = "Unknown, not zero.";
    r.sources = {};
    r.by_culprit = [];
    r.timeline.levels.forEach((l) => (l.noise = []));
    for (const key of ["costliest", "critical_path", "propagation"]) delete r[key];
    r.durations = [];
  });
  others.incomplete = changed(small, "incomplete", (r) => {
    r.conditional = true;
    r.per_rank[0].local_noise_ns = null;
    for (const key of ["timeline", "durations", "costliest", "critical_path", "propagation"]) delete r[key];
  });
  const evil = "<script>window.broken=1</script><img src=x onerror=window.broken=1>", long = "x".repeat(10000), odd = "\u0001\u001b[31m\u202Eltr\u2069\"'&";
  others.hostile = changed(small, "hostile", (r) => {
    r.timeline.culprits = r.timeline.culprits.map((_, i) => [evil, long, odd][i % 3]);
    r.timeline.places.forEach((p, i) => (p.where = [evil, long, odd][i % 3]));
    r.by_culprit.forEach((c, i) => Object.assign(c, { culprit: [evil, long, odd][i % 3], host: evil }));
    r.costliest.forEach((c, i) => Object.assign(c, { culprit: [evil, long, odd][i % 3], where: odd }));
    r.provenance.PROGRAM = evil;
    r.answer.sentence = `${evil} ${odd}`;
  });
  for (const [name, file] of Object.entries(others)) {
    const page = await load(context, file, faults);
    await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
    assert.equal(await page.evaluate(() => window.broken), undefined, name);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: too wide`);
    if (name === "hostile") {
      assert.ok((await page.textContent("h1")).startsWith(evil));
      assert.ok(!/[\u0001\u001b\u202e]/.test(await page.textContent("#page")), "control characters reach the page");
      assert.ok((await page.textContent("#page")).includes("(10000 characters)"));
    }
    await page.close();
  }
  const file = changed(small, "advised", (r) => (r.advice = [{ title: "Pin ranks", saves_ns: 1000, saves_bounds_ns: [900, 1100], saves_percent: 1.5, evidence: "it migrates", command: "mpirun --bind-to core" }]));
  const page = await load(context, file, faults);
  assert.match(await page.textContent("#advice"), /Pin ranks.*1\.00 µs.*1\.5 %/);
  await page.emulateMedia({ media: "print" });
  await page.screenshot({ path: join(pictures, "print.png"), fullPage: true });
  await context.close();
  assert.deepEqual(faults, []);
  console.log(`page_test: all passed; screenshots in ${pictures}`);
} finally {
  rmSync(work, { recursive: true, force: true });
  rmSync(profile, { recursive: true, force: true });
}
