// Takes pictures of pages to look at: wide in both themes, and as a phone shows them.
//
//     node shoot.mjs SITE OUT PAGE…
//
// SLICES says how many slices of a page (default 4).

import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { fail, launch, open } from "./browser.mjs";

const SLICE_PX = 1500;
const SLICES = Number(process.env.SLICES || 4);

const [site, out, ...names] = process.argv.slice(2);
if (!names.length) fail("usage: node shoot.mjs SITE OUT PAGE…");
mkdirSync(out, { recursive: true });
const browser = await launch();
for (const name of names) {
  const path = join(resolve(site), name);
  const shots = [
    ["light", { colorScheme: "light", viewport: { width: 1280, height: 900 } }],
    ["dark", { colorScheme: "dark", viewport: { width: 1280, height: 900 } }],
    ["phone", { colorScheme: "light", viewport: { width: 360, height: 780 } }],
  ];
  for (const [kind, options] of shots) {
    const page = await open(browser, path, [], options);
    const file = `${name.replace(/[/.]/g, "-")}-${kind}.png`;
    // In slices: a long page as one picture is too small to be looked at.
    const { width } = options.viewport;
    const high = await page.evaluate(() => document.documentElement.scrollHeight);
    for (let y = 0, n = 0; y < high && n < SLICES; y += SLICE_PX, n++) {
      const clip = { x: 0, y, width, height: Math.min(SLICE_PX, high - y) };
      await page.screenshot({ path: join(out, file.replace(".png", `-${n}.png`)), fullPage: true, clip });
    }
    await page.context().close();
  }
}
await browser.close();
