// The dashboard: asks /live twice a second and draws what it says. Names of models, adapters and replicas are other people's
// words: they only ever become text nodes and attributes.

import { bar, count, el, ms, sparkline } from "/charts.js";

// A probe finds a dead replica within a second; half a second more, and the reader knows.
const EVERY_MS = 500;
const $ = (id) => document.getElementById(id);
const plural = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

/** Ended decisions never change: their nodes are kept, and with them what the reader has opened. */
let kept = new Map();
let touched = false;
$("decisions").addEventListener("click", () => { touched = true; });

function tile(name, value, unit, note, ...more) {
  return el("article", { class: "tile", id: `tile-${name.toLowerCase().replaceAll(" ", "-")}` },
    el("h2", {}, name), el("p", { class: "value" }, value, el("small", {}, unit)), el("p", { class: "note" }, note), more);
}

function tiles({ recent, status, connections }) {
  const { seconds } = recent;
  const lately = seconds.slice(-10);
  const mean = (key) => lately.reduce((sum, second) => sum + second[key], 0) / Math.max(1, lately.length);
  // Engines tell of a stream's tokens only where the client asked for usage.
  const tokens = mean("completion_tokens");
  const of = (key) => seconds.map((second) => second[key]);
  const trouble = of("trouble").reduce((sum, one) => sum + one, 0);
  const waiting = status.models.reduce((sum, model) => sum + model.queue.waiting, 0);
  const classes = {};
  for (const model of status.models)
    for (const [name, number] of Object.entries(model.queue.by_priority)) classes[name] = (classes[name] ?? 0) + number;
  const members = status.models.flatMap((model) => model.pools).flatMap((pool) => pool.replicas);
  const inFlight = members.reduce((sum, replica) => sum + replica.in_flight, 0);
  $("tiles").replaceChildren(
    tile("Throughput", mean("ended").toFixed(1), " requests/s", [tokens ? `${count(tokens)} tokens/s` : null, plural(connections, "connection")].filter(Boolean).join(" · "),
      sparkline([{ values: of("ended"), name: "good", fill: true }], "requests per second over the last minute")),
    tile("First token", ms(recent.first_token_p50_ms), " p50", `${ms(recent.first_token_p99_ms)} p99 over the last minute`,
      sparkline([{ values: of("first_token_p99_ms"), name: "soft" }, { values: of("first_token_p50_ms"), name: "accent" }],
        "time to the first token, median and 99th percentile")),
    tile("Queue", `${waiting}`, " waiting", `${inFlight} in flight`,
      el("ul", { class: "classes" }, Object.entries(classes).map(([name, number]) => el("li", {}, el("b", {}, `${number}`), ` ${name}`)))),
    tile("Trouble", `${trouble}`, " in the last minute", trouble ? "see Errors below" : "every request was answered",
      sparkline([{ values: of("trouble"), name: "bad", fill: true }], "failed requests per second over the last minute")));
}

function state(replica) {
  if (replica.stalled) return ["bad", "hangs"];
  if (replica.breaker === "tripped") return ["bad", "down"];
  if (replica.draining) return ["warn", "draining"];
  if (replica.breaker === "probing") return ["warn", "probing"];
  if (replica.readout_age_ms === null || replica.readout_age_ms > 2000) return ["warn", "silent"];
  return ["good", "up"];
}

function replicaCard(replica, busiest) {
  const [mood, word] = state(replica);
  const running = replica.running ?? 0, waiting = replica.waiting ?? 0;
  return el("article", { class: `replica ${mood}`, "data-replica": replica.name, "data-state": word },
    el("h4", {}, el("i", { class: "dot" }), el("span", { class: "name" }, replica.name), el("em", {}, word)),
    el("div", { class: "load" }, el("span", {}, "load"),
      bar([{ share: running / busiest, name: "running", title: `${running} running` },
        { share: waiting / busiest, name: "waiting", title: `${waiting} waiting` }], `${running} running, ${waiting} waiting`),
      el("b", {}, `${running}${waiting ? `+${waiting}` : ""}`)),
    el("div", { class: "load" }, el("span", {}, "cache"),
      bar([{ share: replica.kv ?? 0, name: "kv" }], `KV cache ${((replica.kv ?? 0) * 100).toFixed(1)} % full`),
      el("b", {}, `${((replica.kv ?? 0) * 100).toFixed(0)} %`)),
    el("p", { class: "note" }, `${replica.in_flight} in flight · first token p50 ${ms(replica.first_token_p50_ms)} · ${count(replica.requests)} sent`));
}

/** What a cell of the map is called and how it looks. */
function look(cell) {
  if (!cell) return ["absent", "not there", ""];
  if (cell.state === "resident" && cell.leases > 0) return ["leased", `in use by ${plural(cell.leases, "request")}`, `${cell.leases}`];
  if (cell.state === "resident") return ["idle", "resident, idle", ""];
  if (cell.state === "failed") return ["failed", "the last load failed", "✕"];
  if (cell.state === "loading" || cell.state === "promised") return ["loading", cell.state, ""];
  return ["leaving", cell.state, ""];
}

function map(residency) {
  if (!residency) return null;
  const { adapters, replicas, hits, loads } = residency;
  const head = el("tr", {}, el("th", { scope: "col" }, "adapter"), replicas.map((replica) =>
    el("th", { scope: "col", title: replica.name }, el("span", {}, replica.name.replace(/^127\.0\.0\.1/, "")),
      el("small", {}, `${replica.slots_in_use}/${residency.slots}`))));
  const rows = adapters.map((adapter) => el("tr", {},
    el("th", { scope: "row", title: adapter.wire_name }, el("span", {}, adapter.name), adapter.pinned ? el("small", { title: "never evicted" }, " pinned") : null),
    replicas.map((replica) => {
      const cell = replica.adapters.find((one) => one.wire_name === adapter.wire_name);
      const [kind, words, mark] = look(cell);
      const told = `${adapter.name} on ${replica.name}: ${words}`;
      return el("td", {}, el("i", { class: `cell ${kind}`, "data-cell": kind, role: "img", "aria-label": told, title: told }, mark));
    })));
  const legend = ["leased", "idle", "loading", "leaving", "failed", "absent"].map((kind) => el("span", {}, el("i", { class: `cell ${kind}` }), kind));
  const total = hits.resident + hits.waited + hits.cold;
  return el("div", { class: "map" },
    el("h3", {}, "Adapters on replicas"),
    el("p", { class: "note" }, total ? `${(hits.resident / total * 100).toFixed(0)} % of requests found their adapter there · ` : "",
      `${loads.ok} loads · ${residency.evictions} evictions · ${loads.failed} failed · ${residency.waiting} waiting`),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Adapters on replicas" },
      el("table", {}, el("thead", {}, head), el("tbody", {}, rows))),
    el("div", { class: "legend" }, legend));
}

function models({ status }) {
  const scrolled = [...document.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  $("models").replaceChildren(...status.models.map((model) => {
    const members = model.pools.flatMap((pool) => pool.replicas);
    const busiest = Math.max(8, ...members.map((replica) => (replica.running ?? 0) + (replica.waiting ?? 0)));
    return el("section", { class: "panel model" },
      el("h2", {}, model.name, el("small", {}, ` ${plural(members.length, "replica")} · profile ${model.profile} · ${plural(model.adapters.length, "adapter")}`)),
      el("div", { class: "split" },
        el("div", { class: "pools" }, model.pools.map((pool) => [
          model.pools.length > 1 ? el("h3", {}, `${pool.name}, priority ${pool.priority}`) : null,
          el("div", { class: "replicas" }, pool.replicas.map((replica) => replicaCard(replica, busiest)))])),
        map(model.residency)));
  }));
  document.querySelectorAll(".scroll").forEach((box, at) => { box.scrollLeft = scrolled[at] ?? 0; });
}

/** One hue for each scorer, in the order in which they are met. */
const hues = new Map();
function hue(scorer) {
  const name = scorer.replace(/\(.*/, "");
  if (!hues.has(name)) {
    hues.set(name, `s${hues.size % 8}`);
    $("scorers").append(el("span", {}, el("i", { class: `chip ${hues.get(name)}` }), name));
  }
  return hues.get(name);
}

function candidateRow(candidate, made, best) {
  const picked = candidate.replica === (made.replica ?? made.picked);
  const parts = candidate.scores.map(({ scorer, weight, score }) =>
    ({ share: weight * score / best, name: hue(scorer), title: `${scorer}: ${score} × ${weight}` }));
  const label = candidate.dropped_by ? `dropped by ${candidate.dropped_by}` : `total ${candidate.total}`;
  return el("div", { class: `candidate${picked ? " picked" : ""}${candidate.dropped_by ? " dropped" : ""}` },
    el("span", { class: "name" }, candidate.replica),
    candidate.dropped_by ? el("span", { class: "why" }, candidate.dropped_by) : bar(parts, label),
    el("b", {}, candidate.dropped_by ? "" : candidate.total.toFixed(2)));
}

function attempt(made) {
  const facts = [made.adapter_use ? `adapter ${made.adapter_use}, waited ${ms(made.adapter_wait_ms)}` : null,
    made.session && made.session !== "none" ? `session ${made.session}` : null,
    made.picker ? `picked by ${made.picker}` : null, made.rejected ? `rejected: ${made.rejected}` : null,
    made.candidates ? null : `${made.left} of ${made.of} candidates left; what they scored was not kept`];
  const best = Math.max(1e-9, ...(made.candidates ?? []).map((candidate) => candidate.total ?? 0));
  return el("div", { class: "attempt" }, el("p", { class: "note" }, facts.filter(Boolean).join(" · ")),
    (made.candidates ?? []).map((candidate) => candidateRow(candidate, made, best)));
}

function line(decision) {
  const last = decision.tries.at(-1);
  const outcome = decision.outcome ?? "running";
  const mood = { answered: "good", running: "accent", client_gone: "soft" }[outcome] ?? "bad";
  return el("details", { class: "decision", "data-number": decision.number },
    el("summary", {},
      el("time", {}, new Date(decision.at * 1000).toLocaleTimeString()),
      el("span", { class: "name" }, decision.adapter ? `${decision.model}:${decision.adapter}` : decision.model),
      el("span", { class: "to" }, "→ ", last?.replica ?? last?.picked ?? "nobody yet"),
      last?.adapter_use ? el("span", { class: `tag ${last.adapter_use}` }, last.adapter_use) : null,
      decision.tries.length > 1 ? el("span", { class: "tag" }, plural(decision.tries.length, "try").replace("trys", "tries")) : null,
      el("span", { class: `tag ${mood}` }, decision.code ?? outcome),
      el("span", { class: "took" }, ms(decision.first_token_ms ?? decision.duration_ms))),
    decision.tries.map(attempt),
    el("p", { class: "note" }, `request ${decision.request_id} · profile ${decision.profile} · queued ${ms(decision.queue_ms)} · took ${ms(decision.duration_ms)}`));
}

function decisions(live) {
  const seen = new Map();
  const nodes = live.decisions.map((decision) => {
    const before = kept.get(decision.number);
    const ended = decision.outcome !== null;
    if (before?.ended) return seen.set(decision.number, before), before.node;
    const node = line(decision);
    node.open = before ? before.node.open : false;
    seen.set(decision.number, { node, ended });
    return node;
  });
  // The newest that can explain itself is open, until the reader opens or closes one.
  if (!touched) {
    const newest = nodes.find((node) => node.querySelector(".candidate"));
    for (const node of nodes) node.open = node === newest;
  }
  kept = seen;
  const box = $("decisions");
  const focus = document.activeElement;
  if (nodes.length === 0) box.replaceChildren(el("p", { class: "note" }, "No requests yet."));
  else box.replaceChildren(...nodes);
  if (box.contains(focus)) focus.focus();
}

function trouble(live) {
  const rows = live.trouble.map((decision) => el("div", { class: "error" },
    el("time", {}, new Date(decision.at * 1000).toLocaleTimeString()),
    el("span", { class: "tag bad" }, decision.code ?? decision.outcome),
    el("span", { class: "name" }, decision.adapter ? `${decision.model}:${decision.adapter}` : decision.model),
    el("span", {}, [decision.tries.at(-1)?.replica, decision.status ? `status ${decision.status}` : null].filter(Boolean).join(" · "))));
  const last = live.status.config?.last_reload;
  if (last?.outcome === "refused")
    rows.unshift(el("div", { class: "error" }, el("span", { class: "tag bad" }, "reload refused"), el("span", {}, last.errors.join("; "))));
  $("trouble").replaceChildren(...(rows.length ? rows : [el("p", { class: "note" }, "None among the last 512 requests.")]));
}

function contact(mood, words) {
  const place = $("contact");
  place.className = mood;
  if (place.textContent !== words) place.textContent = words;
}

function draw(live) {
  $("version").textContent = live.status.version;
  contact(live.ready ? "good" : "bad", live.ready ? "live" : "not ready");
  for (const part of [tiles, models, decisions, trouble]) {
    // A part that fails takes no other with it, and says so where a developer looks.
    try { part(live); } catch (error) { console.error(error); }
  }
}

let lastSeen = null, next = null;
async function lookAgain() {
  next = null;
  const started = performance.now();
  let live = null;
  try {
    const answer = await fetch("/live", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    live = await answer.json();
    lastSeen = new Date();
  } catch (error) {
    contact("bad", lastSeen ? `no contact since ${lastSeen.toLocaleTimeString()}` : `no contact: ${error.message}`);
  }
  if (live) draw(live);
  // A page nobody sees asks seldom, and leaves the decisions untraced.
  next = setTimeout(lookAgain, document.hidden ? 20_000 : Math.max(100, EVERY_MS - (performance.now() - started)));
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden || next === null) return;
  clearTimeout(next);
  lookAgain();
});
lookAgain();
