// A study's table, its tests and ranks; the groups of runs below it are what it was made of.
function studyTable(f, id) {
  const cell = (c) => (c.best ? h("strong", {}, c.text) : c.text);
  return table(`${f.caption}.`, [["", true], ...f.columns.map((c) => [c])], f.rows.map((row) => [row.label, ...row.cells.map(cell)]), "The study's table");
}
function studyChart(f, id) {
  if (!f.rows.some((row) => row.cells.some((c) => known(c.mean)))) return null;
  return figure("Every cell", "Mean over seeds; the line is its 95 % interval, where there are seeds enough for one.", null, (width) => ({
    svg: [legend(f.columns), dotChart({ width, name: "Every cell of the study", xLabel: f.figure,
      rows: f.rows.map((row) => ({ name: row.label, points: row.cells.map((c, i) => ({ i, v: c.mean, low: c.low, high: c.high, text: `${f.columns[i]} ${c.text}` })) })) })],
  }));
}
function studyTests(f) {
  if (!f.tests) return null;
  const heads = f.tests.heads.map((name, i) => [name, i < 2]);
  return table(`${f.tests.caption}; bold: p below 0.05 after the correction.`, heads,
    f.tests.rows.map((row) => row.slice(0, -1).map((text) => (row.at(-1) ? h("strong", {}, text) : text))), "Paired differences over seeds");
}
function study(f, n) {
  const id = `study-${n}`;
  const notes = noted([...(f.cautions || []), ...(f.remarks || [])]);
  const parts = f.missing ? [h("p", { class: "note" }, f.missing)] : [studyTable(f, id), studyChart(f, id), studyTests(f), f.ranks.map((text) => h("p", {}, text)), notes];
  return h("article", { "aria-labelledby": id }, h("h2", { id }, f.title), h("p", { class: "say" }, `From ${f.origin}`), f.notes ? h("p", {}, f.notes) : null, parts);
}
