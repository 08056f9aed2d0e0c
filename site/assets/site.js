// What a reader can do beyond reading: choose the theme, switch engines, targets
// and scales, sort, filter and copy tables, and read marks by pointer or keyboard.
// The hash keeps what differs from the default after a "~", so that a link shows
// the same view. Every page reads without this file; it asks nothing of a server.
// It is sent without its comments and indentation.
(() => {
  "use strict";
  const doc = document;
  const all = (selector, within = doc) => [...within.querySelectorAll(selector)];
  const make = (tag, text, attributes = {}) => {
    const element = doc.createElement(tag);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    element.textContent = text;
    return element;
  };
  const button = (text, act, attributes) => {
    const element = make("button", text, { type: "button", ...attributes });
    element.onclick = act;
    return element;
  };
  const seen = (element) => element.getClientRects().length;

  // Before anything is painted, so that no page flashes in the wrong colours.
  // Without storage the choice lasts as long as the page.
  const themes = ["auto", "light", "dark"];
  let theme = 0;
  const dress = () => (doc.documentElement.dataset.theme = themes[theme]);
  try {
    theme = Math.max(0, themes.indexOf(localStorage.theme));
  } catch {}
  dress();

  // The view: `off` engines, `all` targets, `flip`ped figures, `s3` how table 3 is
  // sorted, `f3` how it is filtered.
  let view;
  const read = () => (view = new URLSearchParams(location.hash.split("~")[1]));
  const list = (key) => (view.get(key) || "").split(",").filter(Boolean);
  const set = (key, value) => {
    value ? view.set(key, value) : view.delete(key);
    const [anchor] = location.hash.split("~");
    const state = view.size ? "~" + view : "";
    history.replaceState(0, "", (anchor || "#") + state);
    render();
  };
  const toggle = (key, value) => {
    const now = list(key);
    set(key, (now.includes(value) ? now.filter((v) => v !== value) : [...now, value]).join());
  };

  // From a coordinate on a scale to that on the other kind of scale.
  const mapping = (data) => {
    const [kind, other] = data.split(" ").filter(isNaN);
    const [a, b, c, d, from, to] = data.split(" ").filter((v) => !isNaN(v)).map(Number);
    return (px) => {
      let value = a + ((px - from) / (to - from)) * (b - a);
      if (kind === "log") value = 10 ** value;
      if (other === "log") value = Math.log10(value);
      const share = Math.min(Math.max((value - c) / (d - c), 0), 1);
      return +(from + share * (to - from)).toFixed(1);
    };
  };

  const flip = (svg, on) => {
    const { x, y } = svg.plot.dataset;
    const fx = on && x ? mapping(x) : Number;
    const fy = on && y ? mapping(y) : Number;
    svg.classList.toggle("fl", on);
    for (const path of all("path", svg.plot)) {
      path.was ??= path.getAttribute("d");
      const moved = path.was.replace(/(-?[\d.]+) (-?[\d.]+)/g, (_, x, y) => fx(x) + " " + fy(y));
      path.setAttribute("d", moved);
    }
    for (const mark of all("use", svg.plot)) {
      mark.was ??= [mark.getAttribute("x"), mark.getAttribute("y")];
      mark.setAttribute("x", fx(mark.was[0]));
      mark.setAttribute("y", fy(mark.was[1]));
    }
    for (const name of all("[data-l]", svg)) {
      const [x, y] = name.dataset.l.split(" ");
      name.end = [fx(x), fy(y)];
    }
  };

  // The names beside a plot, in their order and none over another.
  const place = (svg) => {
    const keys = svg.querySelector(".ky");
    if (!keys) return;
    const [right, top, low] = keys.dataset.r.split(" ").map(Number);
    const { names } = svg;
    for (const g of names) g.at = g.end ? g.end[1] : +g.dataset.w;
    names.sort((a, b) => a.at - b.at);
    const bottom = Math.max(low, top + 16 * (names.length - 1));
    let next = top;
    for (const g of names) next = (g.at = Math.max(g.at, next)) + 16;
    next = bottom;
    for (const g of names.reverse()) {
      next = (g.at = Math.min(g.at, next)) - 16;
      g.querySelector("g").setAttribute("transform", `translate(${right + 25} ${g.at})`);
      const [x, y] = g.end || [];
      const line = `M${x + 7} ${y}L${right + 12} ${g.at}h6`;
      g.querySelector("path")?.setAttribute("d", line);
    }
    const box = svg.viewBox.baseVal;
    svg.tall ??= box.height;
    box.height = Math.max(svg.tall, bottom + 20);
  };

  const chart = (svg) => {
    const frame = svg.parentNode;
    const figure = svg.closest("figure");
    const tools = make("div", "", { class: "tools" });
    const says = make("p", "", { role: "status" });
    svg.plot = svg.querySelector(".pl");
    if (svg.querySelector(".then")) {
      svg.flip = button("", () => toggle("flip", figure.id));
      tools.append(svg.flip);
    }
    tools.append(says);
    frame.after(tools);
    let current;
    const marks = () => all("g title,rect title", svg).map((title) => title.parentNode).filter(seen);
    const show = (mark) => {
      current?.classList.remove("hi");
      current = mark;
      current?.classList.add("hi");
      says.textContent = current?.textContent || "";
    };
    svg.onpointermove = (event) => {
      let best, least = 30;
      for (const mark of marks()) {
        const box = mark.getBoundingClientRect();
        const x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
        const y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
        const far = Math.hypot(x, y);
        if (far < least) [best, least] = [mark, far];
      }
      if (best !== current) show(best);
    };
    svg.onpointerleave = () => show();
    frame.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Escape: 0 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const found = marks();
      const next = found.indexOf(current) + step;
      show(step ? found.at(next % found.length) : undefined);
    };
  };

  // A cell's number in its base unit, else its text.
  const units = { µs: 1e3, ms: 1e6, s: 1e9, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, mJ: 1e-3,
    k: 1e3, M: 1e6, GHz: 1e3 };
  const key = (cell) => {
    const text = cell.textContent.trim().replace(/\u202f/g, "").replace(/−/g, "-");
    const found = /^[<≤⚠ ]*([-+]?\d[\d.]*(?:e-?\d+)?)\s*(\p{L}*)/u.exec(text);
    return found ? found[1] * (units[found[2]] || 1) : text;
  };
  // What is no number comes last, whichever way.
  const compare = (a, b, sign) =>
    isNaN(a) - isNaN(b) || sign * (isNaN(a) ? a.localeCompare(b) : a - b);

  const words = (cell) => cell.innerText.replace(/\s*\n\s*/g, "; ").replace(/\s*[↕↑↓]/, "").trim();
  const copy = async (table, from, csv) => {
    const lines = all("tr", table).filter(seen).map((row) => [...row.cells].filter(seen).map(words));
    const join = csv
      ? (cells) => cells.map((text) => `"${text.replace(/"/g, '""')}"`).join()
      : (cells) => `| ${cells.map((text) => text.replace(/\|/g, "\\|")).join(" | ")} |`;
    if (!csv) lines.splice(1, 0, lines[0].map(() => "---"));
    try {
      await navigator.clipboard.writeText(lines.map(join).join("\n") + "\n");
      from.classList.add("done");
    } catch {
      from.textContent = "Not allowed here";
    }
  };

  const prepare = (table, number) => {
    table.were = [...table.tBodies].map((body) => [...body.rows]);
    const rows = table.were.flat().length;
    if (rows < 3) return;
    // Not `words`: what is shown needs a layout.
    const of = ": " + table.caption.textContent.trim();
    const tools = make("div", "", { class: "tools" });
    if (rows > 7) {
      table.find = make("input", "", { type: "search", placeholder: table.dataset.find || "Filter", "aria-label": "Filter" + of });
      table.find.oninput = () => set("f" + number, table.find.value);
      tools.append(table.find);
    }
    for (const as of ["Markdown", "CSV"]) {
      const act = (event) => copy(table, event.target, as === "CSV");
      tools.append(button("Copy " + as, act, { "aria-label": `Copy ${as}${of}` }));
    }
    table.closest(".scroll").before(tools);
    if (table.tHead.rows.length > 1) return;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const act = () => {
        const now = view.get("s" + number);
        set("s" + number, now === column + "d" ? "" : now === column + "" ? column + "d" : column + "");
      };
      head.append(button("↕", act, { class: "by", "aria-label": "Sort by " + head.textContent.trim() }));
    });
  };

  const arrange = (table, number) => {
    const sort = view.get("s" + number) || "";
    const down = sort.endsWith("d");
    const find = view.get("f" + number) || "";
    if (table.find) table.find.value = find;
    all(".by", table).forEach((by, column) => {
      const on = sort && parseInt(sort) === column;
      by.textContent = on ? (down ? "↓" : "↑") : "↕";
      by.parentNode.ariaSort = on ? (down ? "descending" : "ascending") : null;
    });
    [...table.tBodies].forEach((body, index) => {
      const rows = [...table.were[index]];
      const group = (row) => row.classList.contains("group");
      const cell = (row) => key(row.cells[parseInt(sort)] || row);
      const order = (a, b) => group(b) - group(a) || compare(cell(a), cell(b), down ? -1 : 1);
      if (sort) rows.sort(order);
      if (sort || body.moved) body.append(...rows);
      body.moved = sort;
      const asked = find.toLowerCase().split(/\s+/);
      const found = (text) => asked.every((word) => text.includes(word));
      for (const row of rows) row.hidden = !group(row) && !found(row.textContent.toLowerCase());
    });
  };

  let charts, legend, tables, every;
  const render = () => {
    const off = legend.filter((engine) => list("off").includes(engine.name));
    const hidden = (element) => off.some((engine) => engine.dataset.e === element.dataset.e);
    for (const engine of legend) engine.firstChild.setAttribute("aria-pressed", !off.includes(engine));
    every?.setAttribute("aria-pressed", view.has("all"));
    for (const chip of all("tbody .sw")) chip.closest("tr").classList.toggle("off", hidden(chip));
    for (const svg of charts) {
      svg.classList.toggle("all", view.has("all"));
      for (const g of all("[data-e]", svg)) g.classList.toggle("off", hidden(g));
      const on = list("flip").includes(svg.closest("figure").id);
      if (svg.plot) flip(svg, on);
      const then = svg.flip && svg.querySelector(on ? ".now" : ".then").textContent;
      if (then) svg.flip.textContent = `Show on a ${then.includes("log scale") ? "log" : "linear"} scale`;
    }
    // Asked of every plot before any is changed: to ask after a change styles the page anew.
    for (const svg of charts) svg.names = all(".ky>g", svg).filter((g) => getComputedStyle(g).display !== "none");
    charts.forEach(place);
    tables.forEach(arrange);
  };

  addEventListener("DOMContentLoaded", () => {
    const choose = button("", () => {
      theme = (theme + 1) % 3;
      try {
        localStorage.theme = themes[theme];
      } catch {}
      name();
    });
    const name = () => (choose.textContent = "Theme: " + dress());
    name();
    doc.querySelector(".top").append(choose);
    legend = all(".legend li");
    for (const engine of legend) {
      engine.name = engine.textContent.trim();
      const press = button("", () => toggle("off", engine.name));
      press.append(...engine.childNodes);
      engine.append(press);
    }
    if (legend[0] && doc.querySelector(".rest")) {
      every = button("Every target", () => set("all", view.has("all") ? "" : "1"));
      const last = make("li", "");
      last.append(every);
      doc.querySelector(".legend").append(last);
    }
    charts = all("figure svg.chart");
    charts.forEach(chart);
    tables = all(".scroll table");
    tables.forEach(prepare);
    const start = () => {
      read();
      render();
      const [anchor, state] = location.hash.slice(1).split("~");
      if (anchor && state) doc.getElementById(anchor)?.scrollIntoView();
    };
    start();
    addEventListener("hashchange", start);
  });
})();
