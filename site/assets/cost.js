// Computes the cost page again from what a reader types in. Every number starts from
// the measured value in its data- attributes, by the formulas that stand on the page,
// and is printed as the page was (see src/fmt.rs). At the printed inputs nothing changes.
"use strict";
(() => {
  const form = document.getElementById("own");
  if (!form) return;
  const NONE = "—";
  const minus = (text) => text.replace("e+", "e").replaceAll("-", "−");
  const group = (text) => {
    const [, sign, whole, rest] = /^(-?)(\d+)(.*)$/.exec(text);
    return whole.length < 5 ? text : sign + whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") + rest;
  };
  const fixed = (x, decimals) => minus(group(x.toFixed(decimals)));
  const plain = (x) => x === 0 || (Math.abs(x) >= 1e-4 && Math.abs(x) < 1e7);
  const rounded = (x, digits) => {
    if (x === 0) return x;
    const decimals = digits - 1 - Math.floor(Math.log10(Math.abs(x)));
    if (Math.abs(decimals) > 15) return x;
    const factor = 10 ** decimals;
    return Math.round(x * factor) / factor;
  };
  const decimals = (x, digits) => {
    const near = rounded(x, digits);
    if (x === 0 || !plain(near)) return null;
    return Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(near))));
  };
  const significant = (x, digits) => {
    if (x === 0) return "0";
    const places = decimals(x, digits);
    return places === null ? minus(x.toExponential(digits - 1)) : fixed(rounded(x, digits), places);
  };
  // A value with its interval, like with_interval in src/fmt.rs.
  const print = (x, low, high, prefix, suffix) => {
    if (!Number.isFinite(x)) return NONE;
    if (!Number.isFinite(low) || !Number.isFinite(high)) return prefix + significant(x, 3) + suffix;
    const all = (digits) => {
      const places = decimals(x, digits);
      return [x, low, high].map((n) =>
        places !== null && (plain(n) || Math.abs(n) < 1) ? fixed(n, places) : significant(n, digits));
    };
    let digits = 3;
    let texts = all(digits);
    while (digits < 6 && low !== high && texts[1] === texts[2]) texts = all(++digits);
    return `${prefix}${texts[0]}${suffix} [${texts[1]},\u00a0${texts[2]}]`;
  };
  const number = (name) => {
    const text = form.elements[name]?.value;
    return text ? Number(text) : NaN;
  };
  const over = (constant, x, low, high) =>
    low > 0 ? [constant / x, constant / high, constant / low] : [constant / x, NaN, NaN];
  const kinds = {
    cost: (m, i) => [...over((i.price * 1e6) / (3600 * i.busy), ...m), "$", ""],
    "what-if": (m, i, cell) =>
      [...over((i.price * Number(cell.p) * 1e6) / (3600 * Number(cell.u)), ...m), "$", ""],
    requests: (m, i) => [...m.map((x) => x * (3600 * i.busy)), "", ""],
    energy: (m, i) => [...m.map((x) => (x * i.kwh) / 3.6), "$", ""],
    even: (m, i) => [...over(i.price / (3600 * i.api), ...m).map((x) => x * 100), "", " %"],
  };
  // A column without any value is left out.
  const fill = (table) => {
    const [head, ...rows] = table.rows;
    [...head.cells].forEach((heading, column) => {
      const cells = rows.map((row) => row.cells[column]);
      if (!cells.some((cell) => cell.dataset.k)) return;
      const empty = cells.every((cell) => cell.textContent === NONE);
      for (const cell of [heading, ...cells]) cell.classList.toggle("empty", empty);
    });
  };
  const compute = () => {
    const inputs = { price: number("price"), busy: number("busy") / 100, kwh: number("kwh") };
    const { prompt, new: out } = form.dataset;
    inputs.api = (Number(prompt) * number("in") + Number(out) * number("out")) / 1e6;
    // Without a price what needs none is computed all the same.
    const unpriced = Number.isNaN(inputs.price);
    const wrong = !(unpriced || inputs.price > 0) || !(inputs.busy > 0 && inputs.busy <= 1);
    for (const cell of document.querySelectorAll("[data-k]")) {
      const { k, v, l, h } = cell.dataset;
      const measured = [v, l, h].map((text) => (text === "" ? NaN : Number(text)));
      cell.textContent = wrong ? NONE : print(...kinds[k](measured, inputs, cell.dataset));
    }
    if (!wrong) document.querySelectorAll("table.costs").forEach(fill);
    document.getElementById("own-said").textContent = wrong
      ? "A price more than 0 and a share of 1 to 100 % are needed."
      : unpriced
        ? "A price by the hour adds the columns in dollars."
        : "The tables are for the numbers above; the first sentence and the chart stay as printed.";
  };
  form.addEventListener("input", compute);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    compute();
  });
  form.addEventListener("reset", () => setTimeout(compute));
  form.hidden = false;
  compute();
})();
