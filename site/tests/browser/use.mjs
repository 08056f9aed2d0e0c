// What a reader can do on a page with charts: switch engines, targets and scales,
// sort, filter and copy a table, read marks by keyboard, change the theme, and send
// a link to the same view. Each check fails where the page doesn't do it.

import { inspect } from "./read.mjs";
import { open } from "./browser.mjs";

const expect = (holds, what) => {
  if (!holds) throw new Error(what);
};
const hash = (page) => page.evaluate(() => location.hash);
// What a closed `details` holds is not counted: it has boxes only once a layout was asked for.
const count = (page, selector) =>
  page.evaluate((s) => {
    const drawn = (e) => e.getClientRects().length && e.checkVisibility();
    return [...document.querySelectorAll(s)].filter(drawn).length;
  }, selector);

async function engines(page) {
  // The baseline has no ratio to itself, so it need not be drawn.
  const drawnAtAll = await page.evaluate(() =>
    [...document.querySelectorAll(".legend > [data-e]")].findIndex((engine) =>
      [...document.querySelectorAll(`svg.chart g[data-e="${engine.dataset.e}"]`)].some((g) => g.getClientRects().length),
    ),
  );
  const press = page.locator(".legend [aria-pressed]").nth(Math.max(drawnAtAll, 0));
  const name = (await press.textContent()).trim();
  const drawn = await count(page, "svg.chart g[data-e]:not(.off)");
  const number = await page.evaluate(
    (nth) => document.querySelectorAll(".legend > [data-e]")[nth].dataset.e,
    Math.max(drawnAtAll, 0),
  );
  const rows = () => count(page, `tbody tr:has(th [data-e="${number}"])`);
  await press.click();
  expect((await press.getAttribute("aria-pressed")) === "false", "an engine's button shows no change");
  expect((await count(page, "svg.chart g[data-e]:not(.off)")) < drawn, "an engine switched off is still drawn");
  expect((await rows()) === 0, "an engine switched off is still in the tables");
  expect((await hash(page)).includes(`off=${encodeURIComponent(name)}`), "the link doesn't say which engine is off");
  await press.click();
  expect((await count(page, "svg.chart g[data-e]:not(.off)")) === drawn, "an engine switched on again is not drawn");
  expect(!(await hash(page)).includes("~"), "the link says what is the default");
}

async function targets(page) {
  const before = await count(page, "svg.chart .rest");
  expect(before === 0, "a target is drawn that nobody asked for");
  const press = page.getByRole("button", { name: "Every target" });
  await press.click();
  expect((await count(page, "svg.chart .rest")) > 0, "not every target is drawn");
  expect((await hash(page)).includes("all=1"), "the link doesn't say that every target is drawn");
  const problems = await page.evaluate(inspect);
  expect(problems.length === 0, `with every target: ${problems.slice(0, 3).join("; ")}`);
  await press.click();
}

async function scales(page) {
  const figure = page.locator("figure", { has: page.getByRole("button", { name: /^Show on a/ }) }).first();
  const press = figure.getByRole("button", { name: /^Show on a/ });
  const name = await press.textContent();
  const places = () =>
    figure.evaluate((f) => [...f.querySelectorAll(".pl use")].map((u) => u.getAttribute("x") + " " + u.getAttribute("y")).join());
  // Both scales may have the same labels, at other places.
  const ticks = () =>
    figure.evaluate((f) =>
      [...f.querySelectorAll(".tk")]
        .filter((t) => t.getClientRects().length)
        .map((t) => ["x", "y"].map((place) => t.getAttribute(place)).join(" ") + " " + t.textContent)
        .join(),
    );
  const [marks, labels] = [await places(), await ticks()];
  await press.click();
  expect((await places()) !== marks, "no mark moves with the scale");
  expect((await ticks()) !== labels, "the ticks stay with another scale");
  expect((await press.textContent()) !== name, "the button doesn't say how to get back");
  expect((await hash(page)).includes("flip="), "the link doesn't say which scale is switched");
  const problems = await page.evaluate(inspect);
  expect(problems.length === 0, `on the other scale: ${problems.slice(0, 3).join("; ")}`);
  await press.click();
  expect((await places()) === marks, "the scale doesn't come back");
}

const column = (table, index) =>
  table.evaluate((t, i) => [...t.tBodies[0].rows].filter((r) => !r.hidden && !r.classList.contains("group")).map((r) => r.cells[i].textContent), index);

async function tables(page, path, browser, problems) {
  const sortable = (where) => where.locator(".scroll table:has(.by)").filter({ visible: true }).first();
  const table = sortable(page);
  const by = table.locator(".by").first();
  const were = await column(table, 0);
  await by.click();
  const up = await column(table, 0);
  expect((await table.locator("th").first().getAttribute("aria-sort")) === "ascending", "a sorted column doesn't say so");
  await by.click();
  const down = await column(table, 0);
  expect(up.join() !== down.join() || up.length < 2, "sorting the other way changes nothing");
  expect(up.slice().sort().join() === down.slice().sort().join(), "sorting loses rows");
  const link = await hash(page);
  expect(/s\d+=0d/.test(link), "the link doesn't say how a table is sorted");
  const other = await open(browser, path, problems, {}, link);
  const there = await column(sortable(other), 0);
  expect(there.join() === down.join(), "a link to a sorted table shows another order");
  await other.context().close();
  await by.click();
  expect((await column(table, 0)).join() === were.join(), "the order doesn't come back");
  // Filter the first table that has one by a word of its last row.
  const find = page.locator("input[type=search]").filter({ visible: true }).first();
  if (await find.count()) {
    const rows = await count(page, "tbody tr");
    await find.fill("no such row anywhere");
    expect((await count(page, "tbody tr")) < rows, "a filter hides nothing");
    await find.fill("");
    expect((await count(page, "tbody tr")) === rows, "rows stay hidden without a filter");
  }
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await withClipboard(async () => {
    for (const [name, sign] of [["Copy Markdown", /^\| .* \|\n\| --- \|/], ["Copy CSV", /^"[^"]*",/]]) {
      const press = page.getByRole("button", { name: new RegExp(`^${name}`) }).filter({ visible: true }).first();
      await press.click();
      const text = await page.evaluate(() => navigator.clipboard.readText());
      expect(sign.test(text), `${name} gives ${JSON.stringify(text.slice(0, 60))}`);
    }
  });
}

// One clipboard serves the whole browser, and two pages are checked at a time: without taking turns
// one reads what the other copied.
let clipboard = Promise.resolve();

function withClipboard(step) {
  const done = clipboard.then(step);
  clipboard = done.catch(() => {});
  return done;
}

async function keyboard(page) {
  const frame = page.locator("figure .scroll:has(svg.chart)").first();
  await frame.focus();
  await page.keyboard.press("ArrowRight");
  const says = page.locator("figure [role=status]").first();
  const first = await says.textContent();
  expect(first.includes(" · "), "the keyboard reads no mark");
  const marks = await frame.evaluate((f) => [...f.querySelectorAll("g title")].filter((t) => t.parentNode.getClientRects().length).length);
  await page.keyboard.press("ArrowRight");
  expect(marks < 2 || (await says.textContent()) !== first, "the keyboard stays on one mark");
  await page.keyboard.press("Escape");
  expect((await says.textContent()) === "", "Escape leaves the read-out");
  const at = await page.evaluate(() => {
    const svg = document.querySelector("figure svg.chart");
    const mark = [...svg.querySelectorAll("g title")].map((t) => t.parentNode).find((m) => m.getClientRects().length);
    mark.scrollIntoView({ block: "center" });
    const box = mark.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  });
  await page.mouse.move(at[0], at[1]);
  expect((await says.textContent()).includes(" · "), "the pointer reads no mark");
}

async function theme(page) {
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const press = page.getByRole("button", { name: /^Theme/ });
  const seen = new Set();
  for (let i = 0; i < 3; i++) {
    seen.add(await ground());
    await press.click();
  }
  expect(seen.size === 2, `three themes give ${seen.size} backgrounds`);
}

async function plain(browser, path, problems) {
  const page = await open(browser, path, problems, { javaScriptEnabled: false });
  const dead = await page.locator("button, input").count();
  const charts = await page.locator("svg.chart").first().isVisible();
  const names = await page.locator("svg.chart text").first().isVisible();
  await page.context().close();
  expect(dead === 0, "without script there are controls that do nothing");
  expect(charts && names, "without script there is no chart");
}

// All problems of typing in a price on the page of costs at `path`.
export async function price(browser, path) {
  const problems = [];
  const page = await open(browser, path, problems);
  const cost = 'table.costs td[data-k="cost"]';
  try {
    const field = page.locator("#own [name=price]");
    await field.fill("1.5");
    expect((await count(page, cost)) > 0, "a price shows no costs");
    expect((await page.locator(cost).first().textContent()).startsWith("$"), "a cost is not in dollars");
    await field.fill("");
    expect((await count(page, cost)) === 0, "without a price there are costs");
  } catch (error) {
    problems.push(`price: ${error.message.split("\n")[0]}`);
  }
  await page.context().close();
  return problems;
}

// All problems of using the page at `path`, which has charts and a legend.
export async function use(browser, path) {
  const problems = [];
  const page = await open(browser, path, problems);
  const steps = { engines, targets, scales, tables, keyboard, theme };
  for (const name in steps) {
    try {
      const needs = { targets: ".rest", scales: ".then", engines: ".legend" }[name];
      if (needs && (await page.locator(needs).count()) === 0) continue;
      await steps[name](page, path, browser, problems);
    } catch (error) {
      problems.push(`${name}: ${error.message.split("\n")[0]}`);
    }
  }
  await page.context().close();
  try {
    await plain(browser, path, problems);
  } catch (error) {
    problems.push(`plain: ${error.message.split("\n")[0]}`);
  }
  return problems;
}
