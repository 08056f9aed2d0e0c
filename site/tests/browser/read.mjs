// What must hold of every page as it lies there: nothing said, nothing asked for, no
// overflow on a phone, no id twice, no chart text that leaves its picture or
// collides, no link that leads nowhere, and no complaint of axe, in both themes.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { open } from "./browser.mjs";

const NARROW_PX = 360;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

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
  // Not in what an engine says of itself: that is its own.
  const quoted = [...document.querySelectorAll(".said")].map((element) => element.innerText);
  const own = quoted.reduce((text, said) => text.replace(said, ""), document.body.innerText);
  const broken = /\b(NaN|Infinity|undefined|null)\b/.exec(own);
  if (broken) problems.push(`the page says ${broken[0]}`);
  for (const svg of document.querySelectorAll("svg.chart")) {
    const { width, height } = svg.viewBox.baseVal;
    // Signs of a grid stand each in its cell, however long the line of them is.
    const texts = [...svg.querySelectorAll("text:not(.sg)")].filter((text) => text.getClientRects().length);
    const own = svg.getScreenCTM().inverse();
    const boxes = texts.map((text) => {
      const box = text.getBBox();
      const at = new DOMPoint(box.x, box.y).matrixTransform(own.multiply(text.getScreenCTM()));
      return [text.textContent, { x: at.x, y: at.y, width: box.width, height: box.height }];
    });
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

export { inspect };

// Runs in the page. Contrast is looked at where text first has its colours and size: to look at
// every row of every table, whose colours are the same, took most of the time.
async function complaints(everything) {
  const looks = (element) => {
    const own = getComputedStyle(element);
    const grounds = [];
    for (let at = element; at; at = at.parentElement) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(at);
      grounds.push(backgroundColor, backgroundImage, opacity);
    }
    const seen = grounds.filter((ground) => !["rgba(0, 0, 0, 0)", "none", "1"].includes(ground));
    return [own.color, own.fill, own.fontSize, own.fontWeight, ...seen].join();
  };
  const first = new Map();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.getClientRects().length === 0) continue;
    const key = looks(element);
    if (!first.has(key)) first.set(key, element);
  }
  const run = async (where, options) =>
    (await window.axe.run(where, { ...options, resultTypes: ["violations"], preload: false })).violations;
  const violations = await run({ include: [...first.values()] }, { runOnly: ["color-contrast"] });
  if (everything) violations.push(...(await run(document, { rules: { "color-contrast": { enabled: false } } })));
  return violations.map((v) => `axe ${v.id}: ${v.nodes.length} × ${v.nodes[0].html.slice(0, 120)}`);
}

// Links that lead to no page of the site, or to no place on it.
async function links(page, path, ids) {
  const found = await page.evaluate(() =>
    [...document.querySelectorAll("a[href]")].map((a) => a.href).filter((href) => href.startsWith("file:")),
  );
  const problems = [];
  for (const href of new Set(found)) {
    const url = new URL(href);
    const file = decodeURIComponent(url.pathname);
    // What is downloaded has no places, and need only be there.
    if (!file.endsWith(".html") && existsSync(file)) continue;
    const there = ids(file);
    const place = decodeURIComponent(url.hash.slice(1));
    if (!there) problems.push(`link to ${url.pathname} leads nowhere`);
    else if (place && !there.has(place)) problems.push(`link to #${place} of ${url.pathname} has no such place`);
  }
  return problems;
}

// All problems of the page at `path`; `ids(path)` are those of any page.
export async function read(browser, path, ids) {
  const problems = [];
  const page = await open(browser, path, problems);
  problems.push(...(await links(page, path, ids)));
  await page.evaluate(AXE);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    problems.push(...(await page.evaluate(inspect)));
    // Of what axe looks at the theme changes colours alone.
    problems.push(...(await page.evaluate(complaints, colorScheme === "light")));
    for (const width of [NARROW_PX, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      const wide = await page.evaluate(overflow);
      if (wide) problems.push(`overflow: ${wide}`);
    }
  }
  await page.context().close();
  return [...new Set(problems)];
}
