// What must hold of every page as it lies there: nothing said, nothing asked for, no
// overflow on a phone, no id twice, no chart text that leaves its picture or
// collides, no link that leads nowhere, and no complaint of axe, in both themes.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";

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

// Runs in the page. Colours are looked at where text, or a link in text, first has its looks, with
// nothing else on the page: to look at every row of every table took most of the time.
async function complaints(everything) {
  const colours = ["color-contrast", "link-in-text-block"];
  const grounds = new Map([[null, []]]);
  const groundsOf = (element) => {
    if (!grounds.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      const own = [backgroundColor, backgroundImage, opacity];
      const seen = own.filter((ground) => !["rgba(0, 0, 0, 0)", "none", "1"].includes(ground));
      grounds.set(element, [...seen, ...groundsOf(element.parentElement)]);
    }
    return grounds.get(element);
  };
  const looks = (element) => {
    const { color, fill, fontSize, fontWeight, textDecorationLine } = getComputedStyle(element);
    return [color, fill, fontSize, fontWeight, textDecorationLine, ...groundsOf(element)].join();
  };
  const first = new Map();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.getClientRects().length === 0) continue;
    const link = element.closest("a");
    // A link is told from the text around it by more than its colour.
    const key = link ? [looks(element), looks(link), looks(link.parentElement)].join(" in ") : looks(element);
    if (!first.has(key)) first.set(key, link ?? element);
  }
  const run = async (where, options) =>
    (await window.axe.run(where, { ...options, resultTypes: ["violations"], preload: false })).violations;
  const include = [...new Set(first.values())];
  const needed = new Set();
  for (const element of include) {
    for (let at = element; at && !needed.has(at); at = at.parentElement) needed.add(at);
  }
  const others = [...document.querySelectorAll("tr, li, p, dt, dd, svg, svg.chart *")].filter((e) => !needed.has(e));
  for (const element of others) element.style.display = "none";
  const violations = await run({ include }, { runOnly: colours });
  for (const element of others) element.style.removeProperty("display");
  const rules = Object.fromEntries(colours.map((rule) => [rule, { enabled: false }]));
  if (everything) violations.push(...(await run(document, { rules })));
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

// All problems of the page at `path`, looked at in `tab`; `ids(path)` are those of any page.
export async function read(tab, path, ids) {
  const { page } = tab;
  tab.problems = [];
  await page.emulateMedia({ colorScheme: "light" });
  await tab.go(path);
  const problems = await links(page, path, ids);
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
  return [...new Set([...tab.problems, ...problems])];
}
