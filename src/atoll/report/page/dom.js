// Elements, numbers and controls. Text enters the page as text only, never as markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") Object.assign(node.style, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "6 2 1 2"];
const colour = (i) => `var(--s${i % 8})`;
const dash = (i) => DASHES[(i + Math.floor(i / 8)) % DASHES.length]; // a colour's second line has another one
const known = (v) => v !== null && v !== undefined && Number.isFinite(v);

function score(group, value, metric) {
  if (!known(value)) return "–";
  return (metric || group.metric) === "loss" ? value.toFixed(4) : (100 * value).toFixed(2);
}
function gap(group, value) {
  if (!known(value)) return "–";
  const shown = group.percent ? (100 * value).toFixed(2) : value.toFixed(4);
  return value >= 0 ? "+" + shown : shown.replace("-", "−");
}
function interval(low, high, show) {
  return known(low) ? `${show(low)} to ${show(high)}` : "–";
}
function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (count >= 1000 && i < units.length - 1) { count /= 1000; i += 1; }
  return `${i ? count.toFixed(1) : count} ${units[i]}`;
}
const nice = (name) => name.replaceAll("_", " ");

// Columns are [heading, isText]; the first cell of a row is its heading.
function table(caption, columns, rows, describe) {
  const head = h("tr", {}, columns.map(([name, text]) => h("th", { scope: "col", class: text ? "left" : null }, name)));
  const body = rows.map((row) => h("tr", {}, row.map((cell, i) =>
    i === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: columns[i][1] ? "left" : null }, cell))));
  const made = h("table", {}, h("caption", {}, h("div", {}, caption)), h("thead", {}, head), h("tbody", {}, body));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": describe || caption }, made);
}

// What the reader has chosen, by control; it outlives a new drawing of the page.
const chosen = new Map();

function pick(id, label, options, redraw) {
  const names = options.map(([value]) => String(value));
  if (!names.includes(chosen.get(id))) chosen.set(id, names[0]);
  const select = h("select", { id, onchange: (e) => { chosen.set(id, e.target.value); redraw(); } },
    options.map(([value, text]) => h("option", { value, selected: String(value) === chosen.get(id) }, text)));
  return h("label", { for: id }, label, select);
}
function slide(id, label, count, shown, redraw) {
  if (!known(chosen.get(id)) || chosen.get(id) >= count) chosen.set(id, count - 1);
  const value = h("output", { for: id }, shown(chosen.get(id)));
  const range = h("input", {
    id, type: "range", min: 0, max: count - 1, step: 1, value: chosen.get(id), "aria-valuetext": shown(chosen.get(id)),
    oninput: (e) => {
      chosen.set(id, Number(e.target.value));
      value.textContent = shown(chosen.get(id));
      e.target.setAttribute("aria-valuetext", shown(chosen.get(id)));
      redraw();
    },
  });
  return h("label", { for: id }, label, range, value);
}
// One box per line of a chart: checked lines are drawn.
function toggles(id, legend, names, redraw) {
  const off = chosen.get(id) || new Set();
  chosen.set(id, off);
  return h("fieldset", {}, h("legend", {}, legend), names.map((name, i) => h("label", {},
    h("input", {
      type: "checkbox", id: `${id}-${i}`, checked: !off.has(name),
      onchange: (e) => { if (e.target.checked) off.delete(name); else off.add(name); redraw(); },
    }),
    h("span", { class: "key", style: { borderTopColor: colour(i), borderTopStyle: i % 3 ? (i % 3 === 1 ? "dashed" : "dotted") : "solid" } }), name)));
}

// A figure draws itself to the width it has, again when that changes.
const figures = [];
let paper = 0; // the width while the page is printed
function figure(title, say, controls, draw) {
  const plot = h("div", { class: "plot" });
  const beside = h("div", {});
  const caption = h("figcaption", {}, title, say ? h("div", { class: "say" }, say) : null);
  const again = () => {
    const made = draw(Math.max(280, paper || plot.clientWidth || 640));
    plot.replaceChildren(...[made.svg].flat());
    const open = beside.querySelector("details")?.open;
    beside.replaceChildren(...[made.beside, made.table && details("Table of this chart", made.table, open)].flat().filter(Boolean));
  };
  const node = h("figure", {}, caption, controls ? h("div", { class: "controls" }, controls(again)) : null, plot, beside);
  figures.push(again);
  return node;
}
function details(summary, content, open) {
  return h("details", { open: Boolean(open) }, h("summary", {}, summary), content);
}
