// Finds and starts Chromium, and opens pages so that whatever a page says or asks
// for is noted.

import { execFileSync } from "node:child_process";
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

export function fail(message) {
  console.error(message);
  process.exit(2);
}

function find() {
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

export function launch() {
  return chromium.launch({ executablePath: find(), args: FLAGS, chromiumSandbox: false });
}

// A page in a context of its own; `problems` gets what it says and asks for.
export async function open(browser, path, problems, options = {}, hash = "") {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.on("console", (message) => problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) problems.push(`request: ${request.url()}`);
  });
  page.on("requestfailed", (request) => problems.push(`failed: ${request.url()}`));
  await page.goto(pathToFileURL(path).href + hash, { waitUntil: "load" });
  return page;
}
