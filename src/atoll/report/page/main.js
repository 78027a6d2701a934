// The page: sections of every group, the theme, and news while a run goes on.
const SECTIONS = [
  ["At a glance", glance], ["Verdict for each site", verdicts], ["Scores", metrics], ["Convergence", convergence], ["Clients", clients],
  ["Similarity", similarity], ["Who holds what", partition], ["Graph", drawing], ["Confusion", confusion], ["Precision and recall", curves],
  ["Communication", communication], ["What left each site", left], ["Settings", settings], ["How to make it anew", reproduce],
];

function render(facts) {
  figures.length = 0;
  const main = document.getElementById("content"), nav = document.getElementById("sections");
  const parts = [], links = [];
  (facts.studies || []).forEach((found, n) => {
    parts.push(study(found, n));
    links.push(h("p", {}, h("a", { href: `#study-${n}` }, found.title)));
  });
  facts.groups.forEach((group, n) => {
    const listed = [];
    const sections = SECTIONS.map(([title, make], i) => {
      const content = [make(group, `g${n}s${i}`)].flat(Infinity).filter(Boolean);
      if (!content.length) return null;
      const id = `part-${n}-${i}`;
      listed.push(h("li", {}, h("a", { href: `#${id}` }, title)));
      return h("section", { "aria-labelledby": id }, h("h3", { id }, title), content);
    });
    parts.push(h("article", { "aria-labelledby": `group-${n}` }, h("h2", { id: `group-${n}` }, group.title), h("p", { class: "say" }, `From ${group.origin}`), sections));
    links.push(facts.groups.length + (facts.studies || []).length > 1 ? h("p", {}, h("a", { href: `#group-${n}` }, group.title)) : "", h("ul", {}, listed));
  });
  const opened = new Set([...main.querySelectorAll("details[open] > summary")].map((e) => path(e)));
  const focus = document.activeElement && document.activeElement.id, place = window.scrollY;
  main.replaceChildren(...parts);
  nav.replaceChildren(...links);
  redraw();
  for (const summary of main.querySelectorAll("summary")) if (opened.has(path(summary))) summary.parentElement.open = true;
  if (focus && document.getElementById(focus)) document.getElementById(focus).focus({ preventScroll: true });
  if (place) window.scrollTo(0, place);
}
// Where a part of the page is, by its section and its words.
const path = (e) => `${e.closest("section")?.getAttribute("aria-labelledby")} ${e.textContent}`;
const redraw = () => figures.forEach((again) => again());

function themes() {
  const root = document.documentElement, button = document.getElementById("theme");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const name = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

async function follow(seconds) {
  const status = document.getElementById("live");
  let tag = null, pause = seconds;
  for (;;) {
    await new Promise((done) => setTimeout(done, 1000 * pause));
    try {
      const answer = await fetch("facts.json", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      pause = seconds;
      if (answer.status === 304) continue;
      if (!answer.ok) throw new Error(String(answer.status));
      tag = answer.headers.get("ETag");
      const facts = await answer.json();
      render(facts);
      const going = facts.groups.some((g) => g.methods.some((m) => !m.complete)) || facts.studies.some((f) => f.missing);
      status.textContent = `${going ? "Live" : "Complete"}; last news at ${new Date().toLocaleTimeString()}.`;
    } catch (problem) {
      status.textContent = "No answer from atoll watch; what is shown was the last news.";
      pause = Math.min(30, 2 * pause);
    }
  }
}

render(JSON.parse(document.getElementById("facts").textContent));
themes();
// On paper charts have the width that they are printed with, so that their words can be read, and all notes are open.
const closed = [];
window.addEventListener("beforeprint", () => {
  paper = 640;
  redraw();
  for (const notes of document.querySelectorAll("details.notes:not([open])")) { notes.open = true; closed.push(notes); }
});
window.addEventListener("afterprint", () => {
  paper = 0;
  redraw();
  for (const notes of closed.splice(0)) notes.open = false;
});
let width = window.innerWidth, waiting = 0;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return; // a phone's bars come and go
  width = window.innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(redraw, 150);
});
if (Number(document.body.dataset.live)) follow(Number(document.body.dataset.live));
