// SPDX-License-Identifier: BSD-3-Clause
// bundle.mjs SOURCES OUT: the page without its data, one HTML file; @DATA@ stays for polter report.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [sources, out, modules] = process.argv.slice(2);
const require = createRequire(join(resolve(modules), "package.json"));
const esbuild = require("esbuild");
const built = await esbuild.build({ entryPoints: [join(sources, "main.ts")], bundle: true, minify: true, format: "iife", target: "es2020",
  charset: "utf8", legalComments: "inline", write: false, nodePaths: [join(resolve(modules), "node_modules")] });
const css = readFileSync(require.resolve("uplot/dist/uPlot.min.css"), "utf8") + readFileSync(join(sources, "page.css"), "utf8");
const small = (await esbuild.transform(css, { loader: "css", minify: true })).code;
// An end of the element inside a string would end the script; "@DATA@" must occur once.
const script = built.outputFiles[0].text.replaceAll("</script", "<\\/script");
const page = readFileSync(join(sources, "page.html"), "utf8").replace("@CSS@", () => small).replace("@SCRIPT@", () => script);
if (page.split("@DATA@").length !== 2) throw new Error("the page must have one place for its data");
writeFileSync(out, page);
