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

// A tab in a context of its own. What its page says and asks for is noted in `problems`.
export class Tab {
  problems = [];

  static async open(browser, options = {}) {
    const tab = new Tab();
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    tab.page = await context.newPage();
    const note = (problem) => tab.problems.push(problem);
    tab.page.on("console", (message) => note(`console: ${message.text()}`));
    tab.page.on("pageerror", (error) => note(`error: ${error.message}`));
    tab.page.on("request", (request) => {
      if (!/^(file|data):/.test(request.url())) note(`request: ${request.url()}`);
    });
    tab.page.on("requestfailed", (request) => note(`failed: ${request.url()}`));
    return tab;
  }

  async go(path, hash = "") {
    await this.page.goto(pathToFileURL(path).href + hash, { waitUntil: "load" });
  }
}

// A page in a tab of its own; `problems` gets what it says and asks for.
export async function open(browser, path, problems, options = {}, hash = "") {
  const tab = await Tab.open(browser, options);
  tab.problems = problems;
  await tab.go(path, hash);
  return tab.page;
}
