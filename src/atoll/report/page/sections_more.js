function confusion(g, id) {
  const methods = Object.keys(g.confusion);
  if (!methods.length) return h("p", { class: "note" }, "No counts of classes are on record: they are kept where nodes are classified in a simulation, as in atoll run. Sites of a deployment do not send them, and links have no classes.");
  const who = h("span", {});
  return figure("What test nodes are taken for", "At the best round, first seed. Rows are what nodes are, columns what they are taken for; shading is the share of a row.",
    (again) => {
      const clients = () => {
        const each = Object.keys(g.confusion[chosen.get(`${id}-taken`)].each);
        who.replaceChildren(pick(`${id}-of`, "of", [["all", "all clients"], ...each.map((k) => [k, g.sites[k]])], again));
      };
      const first = pick(`${id}-taken`, "method", methods.map((m) => [m, m]), () => { clients(); again(); });
      clients();
      return [first, who];
    }, () => {
      const found = g.confusion[chosen.get(`${id}-taken`)], of = chosen.get(`${id}-of`);
      const counts = of === "all" ? found.all : found.each[of];
      const total = (row) => row.reduce((a, b) => a + b, 0);
      // Long names would make a column each: columns then have the numbers of the rows.
      const numbered = found.classes.length > 4 && found.classes.some((c) => c.length > 10);
      const heads = found.classes.map((c, i) => [numbered ? h("span", { title: c }, i + 1) : c]);
      const rows = counts.map((row, r) => [numbered ? `${r + 1}. ${found.classes[r]}` : found.classes[r], ...row.map((n) => shaded(n, n / Math.max(1, total(row)))), total(row), total(row) ? `${(100 * row[r] / total(row)).toFixed(1)}` : "–"]);
      return { svg: table("Test nodes", [["is / taken for", true], ...heads, ["nodes"], ["recall, %"]], rows, "Confusion of classes") };
    });
}
function shaded(count, share) {
  return h("span", { style: { background: `rgba(var(--heat), ${(0.6 * share).toFixed(2)})`, display: "inline-block", padding: "0 0.4rem", borderRadius: "3px", minWidth: "2.2rem" } }, count);
}

function curves(g, id) {
  const methods = Object.keys(g.curves);
  if (!methods.length) return null;
  const classes = [...new Set(methods.flatMap((m) => g.curves[m].map((c) => c.class)))];
  const views = [...(classes.length > 1 ? methods.map((m) => [`m${m}`, `${m}, every class`]) : []), ...classes.map((c) => [`c${c}`, `class ${c}, every method`])];
  return figure("Precision and recall", "Of all clients' test nodes together, at the best round, first seed; in a row of classes each against all others.", (again) => [pick(`${id}-curve`, "lines", views, again)], (width) => {
    const view = chosen.get(`${id}-curve`), key = view.slice(1);
    const parts = view[0] === "m" ? g.curves[key].map((c, i) => [c.class, i, c]) : methods.flatMap((m) => g.curves[m].filter((c) => c.class === key).map((c) => [m, number(g, m), c]));
    const lines = parts.map(([name, i, c]) => ({ name, i, x: c.recall.map((v) => 100 * v), y: c.precision.map((v) => 100 * v) }));
    const keys = h("ul", { class: "legend" }, parts.map(([name, i]) => h("li", {}, s("svg", { width: 26, height: 8, "aria-hidden": "true" }, s("line", { x1: 0, x2: 26, y1: 4, y2: 4, style: { stroke: colour(i) }, "stroke-width": 2.5, "stroke-dasharray": dash(i) || null })), name)));
    return {
      svg: [keys, lineChart({ lines, width, xLabel: "recall, percent", yLabel: "precision, percent", name: "Precision over recall", show: (v) => v.toFixed(1), xShow: (v) => `recall ${v.toFixed(1)} %` })].flat(),
      table: table("Area under each curve (average precision), and the share of nodes that a guess would reach", [["", true], ["area, %"], ["share, %"]], parts.map(([name, , c]) => [name, (100 * c.area).toFixed(2), (100 * c.share).toFixed(2)])),
    };
  });
}

function communication(g) {
  const methods = labels(g).filter((l) => g.communication[l].kinds.length);
  const without = labels(g).filter((l) => !g.communication[l].kinds.length && g.communication[l].rounds.round);
  if (!methods.length) return h("p", {}, "No record of single messages is kept yet.");
  const kinds = [...new Set(methods.flatMap((l) => g.communication[l].kinds.map((k) => k.kind)))];
  const rows = methods.flatMap((l) => ["up", "down"].map((way) => ({ name: `${l}, ${way}`, parts: kinds.map((kind) => { const found = g.communication[l].kinds.find((k) => k.kind === kind); return found ? found[way] : 0; }) })));
  const name = (kind) => (kind === "metric" ? "metric (scores)" : kind);
  return [figure("Bytes by kind", "One run with the first seed, all clients and rounds; up is from clients to the server. Scores belong to the experiment and are not counted elsewhere.", null, (width) => ({
    svg: [legend(kinds.map(name), "box"), stackedBars({ rows, series: kinds, width, xLabel: "sent in all", show: bytes, name: "Bytes by kind" })],
    table: table("Bytes", [["", true], ...kinds.map((k) => [name(k)])], rows.map((r) => [r.name, ...r.parts.map(bytes)])),
  })), without.length ? h("p", { class: "say" }, `No single messages on record: ${without.join(", ")}.`) : null];
}

function left(g) {
  return labels(g).map((l) => {
    const found = g.left[l];
    if (found.missing) return [h("h4", {}, l), h("p", {}, found.missing)];
    const heads = [["", true], ["step", true], ["name", true], ["shape", true], ["server sees", true], ["rounds"], ["bytes"]];
    return [h("h4", {}, l), h("ul", {}, found.sentences.map((t) => h("li", {}, t))), details(`Every tensor that crossed with ${l}`, table("First seed", heads, found.rows))];
  });
}

function settings(g) {
  const heads = [["setting", true], ...labels(g).map((l) => [l, true])];
  const differ = g.settings.filter((row) => new Set(row.slice(1)).size > 1);
  const same = g.settings.filter((row) => new Set(row.slice(1)).size === 1);
  const versions = Object.entries(g.versions);
  return [
    g.methods.length > 1 && differ.length ? table("What differs between methods", heads, differ) : null,
    details(g.methods.length > 1 ? "What all methods share" : "All settings", table("Settings of all", [["setting", true], ["value", true]], same.map((row) => row.slice(0, 2)))),
    versions.length ? details("Versions", table("What the runs were made with", [["", true], ["version", true]], versions)) : null,
  ];
}

function reproduce(g) {
  return [
    h("p", {}, "Each run keeps all of its settings in a file; the same version of Atoll gives the same numbers from it on the same machine:"),
    g.commands.length ? h("pre", { tabindex: 0 }, g.commands.join("\n")) : h("p", {}, "This run was made by a deployment; see docs/deployment.md."),
    Object.entries(g.configs).map(([label, text]) => details(`config.toml of ${label}, first seed`, h("pre", { tabindex: 0 }, text))),
  ];
}
