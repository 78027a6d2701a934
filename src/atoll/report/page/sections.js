// The sections of one group of runs. g: the group's facts; id: what its controls' names begin with.
const SPLITS = { test: "test", val: "validation", train: "training" };
const labels = (g) => g.methods.map((m) => m.label);
const number = (g, label) => labels(g).indexOf(label);
const scale = (g, v, metric) => (known(v) ? ((metric || g.metric) === "loss" ? v : 100 * v) : null);
const unit = (metric) => (metric === "loss" ? "loss" : `${nice(metric)}, percent`);

function glance(g) {
  const going = g.methods.filter((m) => !m.complete);
  const rejected = g.methods.filter((m) => m.rejected).map((m) => `${m.label}: ${m.rejected} replies could not be used.`);
  const joined = g.methods.filter((m) => g.verdicts[m.label] && m.val);
  const less = !g.percent;
  const best = joined.reduce((a, b) => (!a || (less ? b.val.mean < a.val.mean : b.val.mean > a.val.mean) ? b : a), null);
  let said = null;
  if (best) {
    const rows = g.verdicts[best.label], count = (v) => rows.filter((r) => r.verdict === v).length;
    said = h("p", { class: "big" }, `Joining with ${best.label}: ${count("join")} of ${rows.length} sites gained, ${count("stay")} lost, ${count("unclear")} unclear. `,
      `It is the joined method with the best validation score; the mean difference to training alone is ${gap(g, best.to_alone && best.to_alone.mean)}${g.percent ? " points" : ""}.`);
  } else if (g.methods.some((m) => m.to_alone && !m.pooled && m.val)) {
    const ahead = g.methods.filter((m) => m.to_alone && !m.pooled && m.val).reduce((a, b) => ((less ? b.val.mean < a.val.mean : b.val.mean > a.val.mean) ? b : a));
    const shown = (v) => gap(g, v);
    said = h("p", { class: "big" }, `${ahead.label} is the joined method with the best validation score; its mean difference to training alone is ${shown(ahead.to_alone.mean)}${g.percent ? " points" : ""}`,
      known(ahead.to_alone.low) ? ` (95 % interval ${interval(ahead.to_alone.low, ahead.to_alone.high, shown)}).` : ".");
  } else {
    const first = g.methods[0];
    const found = first.scores[g.metric];
    if (found) said = h("p", { class: "big" }, `${first.label}: test ${nice(g.metric)} ${score(g, found.mean)}${g.percent ? " percent" : ""}, best round ${first.best_rounds.join(", ")}.`);
  }
  return [
    said,
    going.map((m) => h("p", { class: "note" }, `${m.label} is not complete: ${m.done} of ${m.rounds} rounds are on record.`)),
    noted([...g.cautions, ...rejected, ...remarks(g)]),
  ];
}
// What was said of runs, each sentence once, with the methods that it was said of.
function remarks(g) {
  const of = new Map();
  for (const m of g.methods) {
    const own = m.notes.map((n) => (n.startsWith(`${m.method}: `) ? n.slice(m.method.length + 2) : n));
    for (const said of [...own, ...m.remarks]) of.set(said, [...(of.get(said) || []), m.label]);
  }
  return [...of].map(([said, methods]) => `${methods.join(", ")}: ${said}`);
}
// The first few sentences, and the others to be opened.
function noted(sentences) {
  const shown = sentences.map((n) => h("p", { class: "note" }, n)), few = shown.length > 5 ? 4 : 5;
  return [shown.slice(0, few), shown.length > few ? fill(details(`${shown.length - few} more notes`, shown.slice(few)), { class: "notes" }, []) : null];
}

function verdicts(g, id) {
  const methods = Object.keys(g.verdicts);
  if (!methods.length) return null;
  const order = [...methods].sort((a, b) => val(g, b) - val(g, a)).map((m) => [m, m]);
  const words = { join: "▲ join", stay: "▼ stay", unclear: "○ unclear" };
  return figure("What joining does for each site", `Difference to training alone in test ${unit(g.metric)}, mean over seeds with its 95 % interval; join: better with the whole interval, stay: worse.`,
    (again) => [pick(`${id}-joined`, "joined with", order, again)], (width) => {
      const label = chosen.get(`${id}-joined`), rows = g.verdicts[label];
      const shown = (v) => gap(g, v);
      return {
        svg: dotChart({ width, zero: true, signed: true, name: `Difference of every site joined with ${label}`, xLabel: `difference to ${g.alone}${g.percent ? ", points" : ""}`,
          rows: rows.map((r) => ({ name: g.sites[r.client], points: [{ i: r.verdict === "stay" ? 1 : r.verdict === "join" ? 2 : 0, v: scale(g, r.difference), low: scale(g, r.low), high: scale(g, r.high), text: `${shown(r.difference)}, ${r.verdict}` }] })) }),
        beside: table(`Sites, alone and joined with ${label}`, [["site", true], ["verdict", true], ["difference"], ["95 % interval"], ["alone"], ["joined"]],
          rows.map((r) => [g.sites[r.client], h("span", { class: r.verdict }, words[r.verdict]), shown(r.difference), interval(r.low, r.high, shown), score(g, r.alone), score(g, r.joined)])),
      };
    });
}
const val = (g, label) => {
  const found = g.methods[number(g, label)].val;
  return found ? (g.percent ? found.mean : -found.mean) : -Infinity;
};

function metrics(g) {
  const there = g.methods.filter((m) => m.scores[g.metric]);
  if (!there.length) return h("p", {}, "No round has been scored yet.");
  const seeds = Math.max(...there.map((m) => m.seeds.length));
  const say = seeds > 1 ? `mean over ${seeds} seeds ± standard deviation; ${seeds > 2 ? "below it the 95 % interval of the mean" : "two seeds are too few for intervals"}` : "one seed: there is no interval over seeds";
  const cell = (m, name) => {
    const found = m.scores[name];
    if (!found) return "–";
    const show = (v) => score(g, v, name);
    return [`${show(found.mean)}${known(found.std) ? ` ± ${show(found.std)}` : ""}`, known(found.low) ? h("div", { class: "say" }, interval(found.low, found.high, show)) : null];
  };
  const rows = g.score_names.filter((name) => there.some((m) => m.scores[name])).map((name) => [`${nice(name)}${name === "loss" ? "" : ", %"}`, ...there.map((m) => cell(m, name))]);
  const per = (title, show) => rows.push([title, ...there.map(show)]);
  if (there.some((m) => m.to_alone)) per(`difference to ${g.alone}`, (m) => (m.to_alone ? [gap(g, m.to_alone.mean), known(m.to_alone.low) ? h("div", { class: "say" }, interval(m.to_alone.low, m.to_alone.high, (v) => gap(g, v))) : null] : "–"));
  if (there.some((m) => m.to_alone && known(m.to_alone.p))) per("p, paired t-test", (m) => (m.to_alone && known(m.to_alone.p) ? m.to_alone.p.toPrecision(2) : "–"));
  per("std over clients", (m) => score(g, m.per_client_std));
  per("best round", (m) => m.best_rounds.join(", "));
  per("ms per round", (m) => (known(m.milliseconds) ? m.milliseconds.toFixed(1) : "–"));
  per("sent up, all seeds", (m) => bytes(m.up));
  per("sent down, all seeds", (m) => bytes(m.down));
  if (there.some((m) => known(m.epsilon))) per("epsilon, highest", (m) => (known(m.epsilon) ? m.epsilon.toFixed(3) : "–"));
  return table(`Test scores at the round with the best mean validation ${nice(g.metric)}; ${say}.`, [["", true], ...there.map((m) => [m.label])], rows, "Scores of every method");
}

function convergence(g, id) {
  const methods = labels(g).filter((l) => g.convergence[l]);
  if (!methods.length) return null;
  const first = g.convergence[methods[0]].means;
  const columns = Object.keys(first).sort((a, b) => rank(g, a) - rank(g, b)).map((c) => {
    const [split, ...metric] = c.split("_");
    return [c, `${SPLITS[split]} ${nice(metric.join("_"))}`];
  });
  const views = [["mean", "methods: mean over clients"], ...methods.filter((l) => g.convergence[l].clients.lines).map((l) => [l, `clients of ${l}`])];
  const boxes = h("div", {});
  let redrawLines = null;
  return figure("Scores, round by round", "Means over clients; where there are several seeds, the band is from the lowest seed to the highest.",
    (again) => { redrawLines = again; return [pick(`${id}-score`, "score", columns, again), pick(`${id}-view`, "lines", views, () => { boxes.replaceChildren(); again(); }), boxes]; }, (width) => {
      const column = chosen.get(`${id}-score`), view = chosen.get(`${id}-view`), metric = column.replace(/^[a-z]+_/, "");
      let lines;
      if (view === "mean") {
        lines = methods.map((l) => {
          const c = g.convergence[l], band = c.spread && column === `test_${g.metric}`;
          return { name: l, i: number(g, l), x: c.rounds, y: (c.means[column] || []).map((v) => scale(g, v, metric)), low: band ? c.spread.low.map((v) => scale(g, v)) : null, high: band ? c.spread.high.map((v) => scale(g, v)) : null };
        });
      } else {
        const c = g.convergence[view].clients, wanted = c.lines[column] ? column : `test_${g.metric}`;
        lines = c.lines[wanted].map((y, k) => ({ name: g.sites[k], i: k, thin: true, x: c.rounds, y: y.map((v) => scale(g, v)) }));
      }
      if (!boxes.firstChild) boxes.append(toggles(`${id}-lines-${view}`, "show", lines.map((l) => l.name), () => redrawLines()));
      const off = chosen.get(`${id}-lines-${view}`);
      const shown = lines.filter((l) => !off.has(l.name));
      const only = view !== "mean" && !g.convergence[view].clients.lines[column];
      const made = lineChart({ lines: shown, width, xLabel: "round", yLabel: only ? `test ${unit(g.metric)}` : `${SPLITS[column.split("_")[0]]} ${unit(metric)}`, name: `Lines of ${shown.length} ${view === "mean" ? "methods" : "clients"} over rounds`, show: (v) => (metric === "loss" ? v.toFixed(4) : v.toFixed(2)) });
      const rounds = shown.length ? shown[0].x : [];
      return {
        svg: made,
        beside: only ? h("p", { class: "say" }, `Lines of single clients are kept for ${nice(g.metric)} on validation and test nodes.`) : null,
        table: table("One row per round", [["round", true], ...shown.map((l) => [l.name])], rounds.map((r, i) => [r, ...shown.map((l) => { const v = l.y[nearest(l.x, r)]; return known(v) ? (metric === "loss" ? v.toFixed(4) : v.toFixed(2)) : "–"; })]), "Scores by round"),
      };
    });
}
function rank(g, column) {
  const [split, ...metric] = column.split("_");
  return (metric.join("_") === g.metric ? 0 : 10) + ["test", "val", "train"].indexOf(split);
}

function clients(g) {
  const methods = Object.keys(g.clients);
  if (!methods.length || g.sites.length < 2) return null;
  return figure("Every client's score", `Test ${unit(g.metric)} at the best round, ${g.same_clients && g.methods.some((m) => m.seeds.length > 1) ? "mean over seeds" : "first seed"}.`, null, (width) => ({
    svg: [legend(labels(g)), dotChart({ width, name: "Every client's test score by method", xLabel: `test ${unit(g.metric)}`,
      rows: g.sites.map((name, k) => ({ name, points: methods.map((l) => ({ i: number(g, l), v: scale(g, g.clients[l][k]), text: `${l} ${score(g, g.clients[l][k])}` })) })) })],
    table: table(`Test ${unit(g.metric)}`, [["client", true], ...methods.map((l) => [l])], g.sites.map((name, k) => [name, ...methods.map((l) => score(g, g.clients[l][k]))])),
  }));
}

function similarity(g, id) {
  const methods = Object.keys(g.similarity);
  if (!methods.length) return null;
  const frames = h("span", {});
  return figure("How alike clients are to the server", "First seed. FED-PUB's similarity is the cosine of what models make of one random graph; a clustering method has 1 within a cluster. Colours run from the smallest value to the largest, the diagonal aside.",
    (again) => {
      const slider = () => {
        const rounds = g.similarity[chosen.get(`${id}-like`)].rounds;
        frames.replaceChildren(slide(`${id}-round`, "round", rounds.length, (i) => String(rounds[i]), again));
      };
      const first = pick(`${id}-like`, "method", methods.map((m) => [m, m]), () => { slider(); again(); });
      slider();
      return [first, frames, pick(`${id}-range`, "colours by", [["one", "the round"], ["all", "all rounds"]], again)];
    }, (width) => {
      const { k, rounds, matrices } = g.similarity[chosen.get(`${id}-like`)];
      const flat = matrices[chosen.get(`${id}-round`)];
      const rows = Array.from({ length: k }, (_, r) => flat.slice(r * k, (r + 1) * k));
      const apart = (chosen.get(`${id}-range`) === "all" ? matrices : [flat]).flatMap((m) => m.filter((_, i) => i % (k + 1)));
      const low = apart.length ? Math.min(...apart) : 0, high = apart.length ? Math.max(...apart) : 1;
      const names = g.sites.slice(0, k), show = (v) => v.toFixed(high - low < 0.1 ? 3 : 2);
      return {
        svg: heatmap({ matrix: rows, names, columns: names, low: low === high ? 0 : low, high, width, show, name: `Similarity between clients in round ${rounds[chosen.get(`${id}-round`)]}` }),
        table: k <= 30 ? table(`Round ${rounds[chosen.get(`${id}-round`)]}`, [["", true], ...names.map((n) => [n])], rows.map((row, r) => [names[r], ...row.map(show)]), "Similarity between clients") : null,
      };
    });
}

function partition(g) {
  const d = g.data;
  if (!d.facts) return h("p", { class: "note" }, d.missing);
  const f = d.facts;
  const connected = known(f.connectivity) ? `; connectivity of the network of clients ${f.connectivity.toPrecision(3)}` : "";
  const parts = [h("p", {}, `${f.nodes} nodes, ${f.edges} ${f.directed ? "directed " : ""}edges, ${f.features} features, ${f.classes} classes; ${f.anchors} nodes are held by several clients and ${f.missing_edges} edges by none. Heterogeneity of labels (median Jensen-Shannon distance between clients) ${f.heterogeneity.toFixed(3)}${connected}.`)];
  const columns = ["nodes", "edges", "classes", "labelled", "anchors", "clustering", "missing_edges"];
  const rows = d.per_client.map((row) => [g.sites[row.client] || d.sites[row.client], ...columns.map((c) => (c === "clustering" ? row[c].toFixed(3) : row[c]))]);
  parts.push(table("What each client holds; labelled: its training nodes with the first seed", [["client", true], ...columns.map((c) => [nice(c)])], rows));
  if (d.labels.length) {
    parts.push(figure("Labels of each client", null, null, (width) => ({
      svg: [legend(d.classes, "box"), stackedBars({ width, series: d.classes, xLabel: "nodes", show: (v) => short(v), name: "Labels of each client", rows: d.labels.map((p, k) => ({ name: d.sites[k], parts: p })) })],
      table: table("Nodes by class", [["client", true], ...d.classes.map((c) => [c])], d.labels.map((p, k) => [d.sites[k], ...p])),
    })));
  }
  if (d.lost.length > 1 && f.missing_edges) {
    const most = Math.max(...d.lost.flat());
    parts.push(figure("Edges that no client holds", "By the clients that hold their ends.", null, (width) => ({
      svg: heatmap({ matrix: d.lost, names: d.sites, columns: d.sites, low: 0, high: most, width, show: String, name: "Missing edges between clients" }),
      table: table("Missing edges", [["", true], ...d.sites.map((n) => [n])], d.lost.map((row, r) => [d.sites[r], ...row])),
    })));
  }
  return parts;
}

function drawing(g, id) {
  const d = g.data;
  if (d.undrawn) return h("p", { class: "note" }, d.undrawn);
  if (!d.drawing) return null;
  const views = [["owner", "the whole graph, by client"], ["class", "the whole graph, by class"], ...d.drawing.parts.map((_, k) => [k, `${d.sites[k]}, by class`])];
  return figure("The graph itself", "Nodes with a dark ring are held by several clients (anchors). No node has a name here.", (again) => [pick(`${id}-graph`, "shown", views, again)], (width) => {
    const view = chosen.get(`${id}-graph`), whole = view === "owner" || view === "class";
    const part = whole ? d.drawing.whole : d.drawing.parts[Number(view)];
    const names = view === "owner" ? d.sites : d.classes;
    const kinds = view === "owner" ? part.owner : d.classes.length ? part.y : part.y.map(() => 0);
    const text = (kind) => (kind < 0 ? "unknown" : names[kind] || "node");
    const some = part.y.length < part.of ? `${part.y.length} of ${part.of} nodes, ${whole ? "of each client " : ""}those nearest to the best-connected one` : `all ${part.of} nodes`;
    const lines = part.edges.length / 2 < part.all_edges ? `${part.edges.length / 2} of the ${part.all_edges} edges among them` : "all edges among them";
    const counted = names.map((name, c) => [name, kinds.filter((v) => v === c).length]).filter(([, n]) => n);
    return {
      svg: [names.length <= 16 ? legend(names, "box") : "", network({ part, kinds, text, width, name: `Drawing of the graph: ${some}` })],
      beside: h("p", { class: "say" }, `Drawn: ${some}; ${lines}; ${part.anchors.length} anchors.`),
      table: table("Nodes that are drawn", [[view === "owner" ? "client" : "class", true], ["nodes"]], counted),
    };
  });
}
