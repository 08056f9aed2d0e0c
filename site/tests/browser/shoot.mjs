// Takes pictures of pages to look at: wide in both themes, and as a phone shows them.
//
//     node shoot.mjs SITE OUT PAGE…

import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { fail, launch, open } from "./browser.mjs";

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
    await page.screenshot({ path: join(out, file), fullPage: true });
    await page.context().close();
    console.log(file);
  }
}
await browser.close();
