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
  const shown = performance.now(), view = window.polter.view;
  const frames = [];
  for (let i = 0, last = performance.now(); i < 120; ++i) {
    view.zoom(i < 60 ? 0.93 : 1 / 0.93, 0.4);
    view.paint();
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    frames.push(now - last);
    last = now;
  }
  frames.sort((a, b) => a - b);
  return { first_paint_ms: Math.round(shown), median_frame_ms: frames[60], slowest_frame_ms: frames[119], frames_per_second: 1000 / (frames.reduce((a, b) => a + b) / 120) };
});
if (picture) await page.screenshot({ path: picture, fullPage: true });
console.log(JSON.stringify({ megabytes: statSync(file).size / 1e6, ...figures }));
await context.close();
rmSync(profile, { recursive: true, force: true });
