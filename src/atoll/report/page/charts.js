// Charts: each returns an svg of a given width.
function ticks(low, high, about, whole) {
  const raw = Math.max((high - low) / about || 1, whole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= raw * 0.999 && !(whole && m % 1));
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return found;
}
const short = (v) => String(Number(v.toPrecision(4)));
function bounds(values, pad) {
  const there = values.filter(known);
  if (!there.length) return [0, 1];
  let low = Math.min(...there), high = Math.max(...there);
  if (low === high) { low -= 0.5; high += 0.5; }
  const more = (high - low) * (pad ?? 0.04);
  return [low - more, high + more];
}
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

// lines: [{name, i, x, y, low, high, thin}]; show(v) for people.
function lineChart({ lines, width, xLabel, yLabel, show, name, xShow }) {
  const height = Math.round(Math.min(380, Math.max(230, width * 0.5)));
  const left = 52, right = 12, top = 24, bottom = 40;
  const [x0, x1] = bounds(lines.flatMap((l) => l.x), 0);
  const [y0, y1] = bounds(lines.flatMap((l) => [...l.y, ...(l.low || []), ...(l.high || [])]));
  const X = (v) => left + ((v - x0) / (x1 - x0)) * (width - left - right);
  const Y = (v) => height - bottom - ((v - y0) / (y1 - y0)) * (height - top - bottom);
  const path = (xs, ys) => {
    let d = "", pen = false;
    xs.forEach((x, i) => {
      if (!known(ys[i])) { pen = false; return; }
      d += `${pen ? "L" : "M"}${X(x).toFixed(1)} ${Y(ys[i]).toFixed(1)}`;
      pen = true;
    });
    return d;
  };
  const grid = ticks(y0, y1, 5).map((v) => [
    s("line", { class: "axis", x1: left, x2: width - right, y1: Y(v), y2: Y(v) }),
    s("text", { class: "faint", x: left - 6, y: Y(v) + 4, "text-anchor": "end" }, short(v))]);
  const whole = lines.every((l) => l.x.every(Number.isInteger)); // rounds
  const below = ticks(x0, x1, width < 480 ? 4 : 8, whole).map((v) =>
    s("text", { class: "faint", x: X(v), y: height - bottom + 16, "text-anchor": "middle" }, short(v)));
  const bands = lines.filter((l) => l.low).map((l) => {
    const there = l.x.map((_, i) => i).filter((i) => known(l.low[i]) && known(l.high[i]));
    const points = [...there.map((i) => `${X(l.x[i])},${Y(l.high[i])}`), ...there.reverse().map((i) => `${X(l.x[i])},${Y(l.low[i])}`)];
    return s("polygon", { points: points.join(" "), style: { fill: colour(l.i) }, "fill-opacity": 0.15 });
  });
  const drawn = lines.map((l) => s("path", {
    d: path(l.x, l.y), fill: "none", class: "line", style: { stroke: colour(l.i) }, "stroke-width": l.thin ? 1.3 : 2.2, "stroke-dasharray": dash(l.i) || null }));
  const cursor = s("line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": `${name}. Left and right arrow keys read single values; a table follows.` },
    grid, below, bands, drawn, cursor,
    s("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, xLabel),
    s("text", { x: 4, y: 12, class: "faint" }, yLabel));
  const readout = h("p", { class: "readout", role: "status" }, lines.length ? "Point at the chart, or give it focus and use the arrow keys." : "Nothing is chosen.");
  const places = [...new Set(lines.flatMap((l) => l.x))].sort((a, b) => a - b);
  let at = places.length - 1;
  const tell = () => {
    if (!places.length) return;
    const x = places[at];
    cursor.setAttribute("x1", X(x)); cursor.setAttribute("x2", X(x)); cursor.setAttribute("visibility", "visible");
    const found = lines.map((l) => [l, l.y[nearest(l.x, x)]]).filter(([, v]) => known(v)).sort((a, b) => b[1] - a[1]);
    const some = found.slice(0, 8).map(([l, v]) => `${l.name} ${show(v)}`).join("; ");
    readout.textContent = `${(xShow || ((v) => `${xLabel} ${short(v)}`))(x)}: ${some}${found.length > 8 ? `; and ${found.length - 8} more` : ""}`;
  };
  svg.addEventListener("pointermove", (e) => {
    const box = svg.getBoundingClientRect();
    const x = x0 + (((e.clientX - box.left) * width / box.width - left) / (width - left - right)) * (x1 - x0);
    at = nearest(places, x);
    tell();
  });
  svg.addEventListener("keydown", (e) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    at = Math.max(0, Math.min(places.length - 1, at + step));
    tell();
  });
  return [svg, readout];
}
function nearest(sorted, x) {
  let best = 0;
  sorted.forEach((v, i) => { if (Math.abs(v - x) < Math.abs(sorted[best] - x)) best = i; });
  return best;
}

// rows: [{name, points: [{i, v, low, high}]}]: a dot per point, with a whisker where there is an interval;
// points of a row lie below each other where whiskers would hide others.
function dotChart({ rows, width, xLabel, zero, name, signed }) {
  const most = Math.max(...rows.map((r) => r.points.length));
  const apart = most > 1 && rows.some((r) => r.points.some((p) => known(p.low))) ? 12 : 0;
  const per = apart ? apart * most + 12 : 22, left = Math.min(170, Math.max(70, 8 * Math.max(...rows.map((r) => Math.min(r.name.length, 22))))), right = 14, top = 6, bottom = 38;
  const height = top + bottom + per * rows.length;
  const all = rows.flatMap((r) => r.points.flatMap((p) => [p.v, p.low, p.high]));
  const [x0, x1] = bounds(zero ? [...all, 0] : all, 0.05);
  const X = (v) => left + ((v - x0) / (x1 - x0)) * (width - left - right);
  const marks = rows.map((row, r) => {
    const y = top + per * (r + 0.5);
    return [
      s("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, s("title", {}, row.name), cut(row.name, Math.floor(left / 7.4))),
      row.points.map((p, n) => [p, y + apart * (n - (row.points.length - 1) / 2)]).filter(([p]) => known(p.v)).map(([p, at]) => [
        known(p.low) && s("line", { x1: X(p.low), x2: X(p.high), y1: at, y2: at, style: { stroke: colour(p.i) }, "stroke-width": 2.5, "stroke-opacity": 0.6 }),
        mark(p.i, X(p.v), at, `${row.name}: ${p.text}`)])];
  });
  const grid = ticks(x0, x1, width < 480 ? 4 : 8).map((v) => [
    s("line", { class: zero && v === 0 ? "zero" : "axis", x1: X(v), x2: X(v), y1: top, y2: height - bottom }),
    s("text", { class: "faint", x: X(v), y: height - bottom + 15, "text-anchor": "middle" }, (signed && v > 0 ? "+" : "") + short(v))]);
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name}. A table follows.` }, grid, marks,
    s("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, xLabel));
}
// A shape of its own per series, so that colour is not all that tells them apart.
function mark(i, x, y, text) {
  const style = { fill: colour(i) }, title = s("title", {}, text), r = 5;
  const shapes = [
    () => s("circle", { cx: x, cy: y, r, style }, title),
    () => s("rect", { x: x - r + 0.5, y: y - r + 0.5, width: 2 * r - 1, height: 2 * r - 1, style }, title),
    () => s("polygon", { points: `${x},${y - r - 1} ${x + r + 1},${y + r - 1} ${x - r - 1},${y + r - 1}`, style }, title),
    () => s("polygon", { points: `${x},${y - r - 1} ${x + r + 1},${y} ${x},${y + r + 1} ${x - r - 1},${y}`, style }, title),
  ];
  return shapes[i % shapes.length]();
}
function legend(names, shape) {
  return h("ul", { class: "legend" }, names.map((name, i) => h("li", {},
    shape === "box" ? h("span", { class: "box", style: { background: colour(i), opacity: i >= 8 ? 0.55 : 1 } }) : s("svg", { width: 14, height: 14, "aria-hidden": "true" }, mark(i, 7, 7, name)), name)));
}

// parts: per row, one number per series; lying bars, one on the other.
function stackedBars({ rows, series, width, xLabel, show, name }) {
  const per = 26, left = Math.min(170, Math.max(70, 8 * Math.max(...rows.map((r) => Math.min(r.name.length, 22))))), right = 14, bottom = 38;
  const height = per * rows.length + bottom + 4;
  const most = Math.max(1, ...rows.map((r) => r.parts.reduce((a, b) => a + b, 0)));
  const X = (v) => left + (v / most) * (width - left - right);
  const bars = rows.map((row, r) => {
    let from = 0;
    return [
      s("text", { x: left - 8, y: per * (r + 0.5) + 5, "text-anchor": "end" }, s("title", {}, row.name), cut(row.name, Math.floor(left / 7.4))),
      row.parts.map((v, i) => {
        const x = X(from);
        from += v;
        return v > 0 && s("rect", { x, y: per * r + 4, width: Math.max(0.5, X(from) - x - 0.5), height: per - 7, style: { fill: colour(i) }, "fill-opacity": i >= 8 ? 0.55 : 1 },
          s("title", {}, `${row.name}, ${series[i]}: ${show(v)}`));
      })];
  });
  const grid = ticks(0, most, width < 480 ? 3 : 6).map((v) => [
    s("line", { class: "axis", x1: X(v), x2: X(v), y1: 0, y2: per * rows.length + 2 }),
    s("text", { class: "faint", x: X(v), y: height - bottom + 16, "text-anchor": "middle" }, show(v))]);
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name}. A table follows.` }, grid, bars,
    s("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, xLabel));
}

function heatmap({ matrix, names, columns, low, high, width, show, name }) {
  const k = matrix.length, side = Math.min(width, 560);
  const left = Math.min(110, 10 + 7 * Math.max(...names.map((n) => Math.min(n.length, 14))));
  const cell = (side - left - 4) / k;
  const bottom = k <= 40 ? Math.min(90, left * 0.8) : 4, height = cell * k + bottom;
  const every = Math.max(1, Math.ceil(13 / cell));
  const squares = matrix.map((row, r) => row.map((v, c) => {
    const strength = known(v) ? Math.max(0, Math.min(1, (v - low) / (high - low || 1))) : 0;
    return [s("rect", { x: left + c * cell, y: r * cell, width: cell, height: cell, style: { fill: `rgba(var(--heat), ${(0.05 + 0.95 * strength).toFixed(3)})` } },
      s("title", {}, `${names[r]}, ${columns[c]}: ${show(v)}`)),
      cell > 30 && s("text", { x: left + (c + 0.5) * cell, y: (r + 0.5) * cell + 4, "text-anchor": "middle", style: { fill: strength > 0.68 ? "var(--paper)" : "var(--ink)" } }, show(v))];
  }));
  const labels = names.map((n, i) => i % every === 0 && [
    s("text", { x: left - 6, y: (i + 0.5) * cell + 4, "text-anchor": "end" }, cut(n, 14)),
    k <= 40 && s("text", { transform: `translate(${left + (i + 0.5) * cell + 3} ${k * cell + 8}) rotate(-55)`, "text-anchor": "end" }, cut(columns[i], 12))]);
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name}. A table follows where it is small enough.` }, squares, labels);
}

// A graph: at [x0, y0, x1, ...] in 0..1000, edges [a0, b0, ...], kinds for colours.
function network({ part, kinds, text, width, name }) {
  const height = Math.round(Math.min(width * 0.7, 520)), pad = 10;
  const X = (v) => pad + (v / 1000) * (width - 2 * pad), Y = (v) => pad + (v / 1000) * (height - 2 * pad);
  const n = part.y.length, radius = n > 400 ? 2.4 : n > 150 ? 3.2 : 4.5;
  let d = "";
  for (let e = 0; e < part.edges.length; e += 2) {
    const [a, b] = [part.edges[e], part.edges[e + 1]];
    d += `M${X(part.at[2 * a]).toFixed(0)} ${Y(part.at[2 * a + 1]).toFixed(0)}L${X(part.at[2 * b]).toFixed(0)} ${Y(part.at[2 * b + 1]).toFixed(0)}`;
  }
  const shared = new Set(part.anchors);
  const nodes = part.y.map((_, v) => {
    const kind = kinds[v];
    const style = kind < 0 ? { fill: "var(--edge)" } : { fill: colour(kind) };
    return s("circle", { cx: X(part.at[2 * v]).toFixed(1), cy: Y(part.at[2 * v + 1]).toFixed(1), r: radius + (shared.has(v) ? 1.5 : 0), style, "fill-opacity": kind >= 8 ? 0.55 : 1,
      stroke: shared.has(v) ? "var(--ink)" : null, "stroke-width": shared.has(v) ? 2 : null }, s("title", {}, text(kind) + (shared.has(v) ? ", held by several clients" : "")));
  });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name }, s("path", { d, fill: "none", style: { stroke: "var(--edge)" }, "stroke-width": 0.6, "stroke-opacity": 0.6 }), nodes);
}
