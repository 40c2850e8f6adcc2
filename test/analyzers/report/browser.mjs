// SPDX-License-Identifier: BSD-3-Clause
// Debian's Chromium, and a page that counts its requests and errors.
import { existsSync, mkdtempSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const executablePath = "/usr/bin/chromium";
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

export function modules(folder) {
  return createRequire(join(resolve(folder), "package.json"));
}

export async function browser(folder) {
  if (!existsSync(executablePath)) {
    console.log("SKIP: no /usr/bin/chromium; scripts/setup installs it");
    process.exit(77);
  }
  const { chromium } = modules(folder)("playwright-core");
  const profile = mkdtempSync(join(tmpdir(), "polter-chromium-"));
  return { context: (options) => chromium.launchPersistentContext(mkdtempSync(join(profile, "p")), { executablePath, args: flags, headless: true, ...options }), profile };
}

// Opens a file, and fails the caller's test by what it collects: errors and requests other than of the file itself.
export async function load(context, file, faults) {
  const page = await context.newPage();
  const url = pathToFileURL(file).href;
  page.on("console", (m) => { if (m.type() === "error") faults.push(`console: ${m.text()}`); });
  page.on("pageerror", (e) => faults.push(`error: ${e.message}`));
  page.on("request", (r) => { if (r.url().split("#")[0] !== url) faults.push(`request: ${r.url()}`); });
  await page.goto(url);
  await page.waitForSelector("#page[data-ready=true]", { timeout: 60000 });
  return page;
}
