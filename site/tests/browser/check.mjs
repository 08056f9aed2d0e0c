// Opens every page of a rendered site from file:// in Chromium, uses those with
// charts as a reader would, and validates their markup. Prints one line per page.
//
//     npm ci --ignore-scripts && node check.mjs DIR
//
// CHROMIUM names the browser (default: chromium, chromium-browser, google-chrome
// from PATH). Exit code: 0 = all pages pass, 1 = some fail, 2 = can't check.

import { readFileSync, readdirSync, statSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { FileSystemConfigLoader, HtmlValidate } from "html-validate";
import { fail, launch, Tab } from "./browser.mjs";
import { read } from "./read.mjs";
import { price, use } from "./use.mjs";

const KILOBYTES_MAX = 300;

function pagesUnder(dir) {
  return readdirSync(dir)
    .sort()
    .flatMap((name) => {
      const path = join(dir, name);
      if (statSync(path).isDirectory()) return pagesUnder(path);
      return name.endsWith(".html") ? [path] : [];
    });
}

const [dir] = process.argv.slice(2);
if (!dir) fail("usage: node check.mjs DIR");
const pages = pagesUnder(resolve(dir));
if (pages.length === 0) fail(`no page under ${dir}`);

const ids = new Map();
for (const path of pages) {
  const found = readFileSync(path, "utf8").matchAll(/\sid="([^"]*)"/g);
  ids.set(path, new Set([...found].map((match) => match[1])));
}
const markup = new HtmlValidate(new FileSystemConfigLoader({ root: true, extends: ["html-validate:recommended"], rules: {
  // Written for people who type markup; ours is escaped and generated.
  "no-trailing-whitespace": "off",
  "long-title": "off",
  "doctype-style": ["error", { style: "lowercase" }],
  // A target's id is its anchor, dots and all.
  "valid-id": ["error", { relaxed: true }],
  // A region that scrolls is a group with a name, not a fieldset.
  "prefer-native-element": ["error", { exclude: ["group"] }],
} }));

async function validate(path) {
  const { results } = await markup.validateFile(path);
  return results.flatMap((result) => result.messages.map((m) => `markup ${m.line}:${m.column} ${m.ruleId}: ${m.message}`));
}

const browser = await launch();
let failed = 0;

async function check(tab, path) {
  const problems = await read(tab, path, (other) => ids.get(other));
  problems.push(...(await validate(path)));
  const kilobytes = statSync(path).size / 1000;
  if (kilobytes > KILOBYTES_MAX) problems.push(`${kilobytes} kB`);
  const text = readFileSync(path, "utf8");
  if (text.includes("<figure") && text.includes('class="legend"')) problems.push(...(await use(browser, path)));
  if (text.includes('data-k="cost"')) problems.push(...(await price(browser, path)));
  failed += problems.length > 0;
  const name = relative(resolve(dir), path);
  console.log(problems.length ? `FAIL ${name}: ${problems.slice(0, 8).join("; ")}` : `ok   ${name}`);
}

// Each tab has a process of its own, so two keep two processors busy, the largest pages first: at
// the end neither waits long for the other.
const left = [...pages].sort((a, b) => statSync(b).size - statSync(a).size).values();
const worker = async () => {
  const tab = await Tab.open(browser);
  for (const path of left) await check(tab, path);
};
await Promise.all([worker(), worker()]);
await browser.close();
process.exit(failed ? 1 : 0);
