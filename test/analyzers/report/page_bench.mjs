// SPDX-License-Identifier: BSD-3-Clause
// page_bench.mjs MODULES REPORT [PICTURE]: time to the first paint of a report, and frames a second while zooming. Not a test: it depends
// on the machine.
import { statSync, rmSync } from "node:fs";
import { browser, load } from "./browser.mjs";

const [folder, file, picture] = process.argv.slice(2);
const { context: start, profile } = await browser(folder);
const context = await start({ viewport: { width: 1280, height: 900 } });
const page = await load(context, file, []);
const figures = await page.evaluate(async () => {
  const painted = performance.getEntriesByName("polter-painted")[0].startTime, view = window.polter.view;
  // Each frame zooms and is painted; `how` also changes which ranks are seen.
  const run = async (how) => {
    const frames = [];
    for (let i = 0, last = performance.now(); i < 120; ++i) {
      const by = i < 60 ? 0.93 : 1 / 0.93;
      view.zoom(by, 0.4);
      if (how === "ranks") view.zoomRows(by, 0.4);
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      frames.push(now - last);
      last = now;
    }
    frames.sort((a, b) => a - b);
    return { median_frame_ms: frames[60], slowest_frame_ms: frames[119], frames_per_second: 120000 / frames.reduce((a, b) => a + b) };
  };
  const figures = { first_paint_ms: Math.round(painted), zoom: await run("time"), zoom_time_and_ranks: await run("ranks") };
  // Where every call, noise event and message is drawn.
  const close = window.polter.result.timeline.close_ups.sort((a, b) => b.calls.rank.length - a.calls.rank.length)[0];
  if (close) {
    view.show(close.begin_ns, close.end_ns);
    figures.close_up = { calls: close.calls.rank.length, messages: close.messages.from.length, ...(await run("time")) };
  }
  return figures;
});
if (picture) {
  await page.evaluate(() => window.polter.view.show(0, 1e15));
  await page.waitForTimeout(100);
  await page.screenshot({ path: picture, fullPage: true });
}
console.log(JSON.stringify({ megabytes: statSync(file).size / 1e6, ...figures }, null, 1));
await context.close();
rmSync(profile, { recursive: true, force: true });
