// Opens every page of a rendered site from file:// in Chromium and fails on what
// a reader would trip over: a console message, a request that is not for a file,
// horizontal overflow at 360 px, a duplicate id, or chart text that leaves its
// picture or collides with other text. Prints one line per page.
//
//     npm ci --ignore-scripts && node check.mjs DIR
//
// CHROMIUM names the browser (default: chromium, chromium-browser, google-chrome
// from PATH). Exit code: 0 = all pages pass, 1 = some fail, 2 = can't check.

import { execFileSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const FLAGS = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const NARROW_PX = 360;

function fail(message) {
  console.error(message);
  process.exit(2);
}

function findBrowser() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    try {
      return execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
    } catch {
      // Not this one.
    }
  }
  return fail("no Chromium found: install it, or name it in CHROMIUM");
}

function pagesUnder(dir) {
  return readdirSync(dir)
    .sort()
    .flatMap((name) => {
      const path = join(dir, name);
      if (statSync(path).isDirectory()) return pagesUnder(path);
      return name.endsWith(".html") ? [path] : [];
    });
}

// Runs in the page.
function inspect() {
  const problems = [];
  const seen = new Set();
  for (const element of document.querySelectorAll("[id]")) {
    if (seen.has(element.id)) problems.push(`id "${element.id}" stands twice`);
    seen.add(element.id);
  }
  if (document.querySelectorAll("h1").length !== 1) problems.push("not exactly one h1");
  let rank = 0;
  for (const heading of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
    const next = Number(heading.tagName[1]);
    if (next > rank + 1) problems.push(`heading "${heading.textContent}" skips a level`);
    rank = next;
  }
  for (const svg of document.querySelectorAll("svg.chart")) {
    const { width, height } = svg.viewBox.baseVal;
    const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBBox()]);
    boxes.forEach(([text, box], index) => {
      const inside =
        box.x >= -1 && box.y >= -1 && box.x + box.width <= width + 1 && box.y + box.height <= height + 1;
      if (!inside) problems.push(`chart text "${text}" leaves its picture`);
      for (const [other, its] of boxes.slice(index + 1)) {
        const x = Math.min(box.x + box.width, its.x + its.width) - Math.max(box.x, its.x);
        const y = Math.min(box.y + box.height, its.y + its.height) - Math.max(box.y, its.y);
        if (x > 1 && y > 3) problems.push(`chart texts "${text}" and "${other}" collide`);
      }
    });
  }
  return problems;
}

// Runs in the page.
function overflow() {
  const { scrollWidth, clientWidth } = document.documentElement;
  return scrollWidth > clientWidth ? `${scrollWidth} px wide at ${clientWidth} px` : "";
}

async function check(browser, path, colorScheme) {
  const problems = [];
  const context = await browser.newContext({ colorScheme, viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  page.on("console", (message) => problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) problems.push(`request: ${request.url()}`);
  });
  page.on("requestfailed", (request) => problems.push(`failed: ${request.url()}`));
  await page.goto(pathToFileURL(path).href, { waitUntil: "load" });
  problems.push(...(await page.evaluate(inspect)));
  for (const width of [1280, NARROW_PX]) {
    await page.setViewportSize({ width, height: 900 });
    const wide = await page.evaluate(overflow);
    if (wide) problems.push(`overflow: ${wide}`);
  }
  await context.close();
  return problems;
}

const [dir] = process.argv.slice(2);
if (!dir) fail("usage: node check.mjs DIR");
const pages = pagesUnder(resolve(dir));
if (pages.length === 0) fail(`no page under ${dir}`);

const browser = await chromium.launch({
  executablePath: findBrowser(),
  args: FLAGS,
  chromiumSandbox: false,
});
let failed = 0;
for (const path of pages) {
  const problems = new Set();
  for (const scheme of ["light", "dark"]) {
    for (const problem of await check(browser, path, scheme)) problems.add(problem);
  }
  failed += problems.size > 0;
  const name = relative(resolve(dir), path);
  console.log(problems.size ? `FAIL ${name}: ${[...problems].slice(0, 8).join("; ")}` : `ok   ${name}`);
}
await browser.close();
process.exit(failed ? 1 : 0);
