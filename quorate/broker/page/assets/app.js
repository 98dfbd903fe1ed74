// The page about a cluster. Names of topics, racks and reasons are strangers' text: only textContent shows them.

const $ = (id) => document.getElementById(id);
const STATES = ["well", "displaced", "moving", "behind", "offline"];
const WORDS = ["in order", "led by another than the first replica", "moving", "a replica is not in sync", "offline"];
// A formatter takes longer to make than to use.
const DIGITS = new Intl.NumberFormat("en");
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "numeric", second: "numeric", hour12: false });
const number = (value) => (value === null || value === undefined ? "?" : DIGITS.format(value));

const shown = {
  offset: null, // null: live
  summary: null,
  health: null,
  map: null, // the partitions
  mapOffset: null,
  changes: [],
  topic: null,
};
let heardAt = performance.now();
let asking = new AbortController();

// Elements

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function fill(parent, ...children) {
  parent.replaceChildren(...children.filter((each) => each !== null));
}

function row(cells, tag = "td") {
  const line = document.createElement("tr");
  for (const [text, className] of cells) {
    if (text instanceof Node) {
      const cell = make(tag, className);
      cell.append(text);
      line.append(cell);
    } else {
      const cell = make(tag, className, text);
      if (tag === "th") cell.scope = "col";
      line.append(cell);
    }
  }
  return line;
}

const painted = new WeakMap(); // what elements show, as text

// A reader's selection, the focus and the layout outlive what says the same.
function isNew(element, value) {
  const text = JSON.stringify(value);
  if (painted.get(element) === text) return false;
  painted.set(element, text);
  return true;
}

const itemsOf = new WeakMap(); // of lists and bodies of tables: the items by what they show

// Show an item for each value. Items that are there already stay.
function keepItems(parent, values, makeItem) {
  const had = itemsOf.get(parent) ?? new Map();
  const items = new Map();
  for (const value of values) {
    let key = JSON.stringify(value);
    while (items.has(key)) key += " ";
    items.set(key, had.get(key) ?? makeItem(value));
  }
  for (const [key, item] of had) if (!items.has(key)) item.remove();
  let next = parent.firstElementChild;
  for (const item of items.values()) {
    if (item === next) next = next.nextElementSibling;
    else parent.insertBefore(item, next);
  }
  itemsOf.set(parent, items);
  return [...items.values()];
}

function table(element, heads, lines, title) {
  const head = make("thead");
  head.append(row(heads, "th"));
  const body = make("tbody");
  body.append(...lines);
  fill(element, title ? make("caption", "", title) : null, head, body);
  return element;
}

const list = (ids) => (ids.length ? ids.join(", ") : "none");
const leaderText = (leader) => (leader === null || leader < 0 ? "none" : String(leader));

function timeText(ms) {
  if (ms === null || ms === undefined) return "at a time that the log no longer tells";
  const date = new Date(ms);
  return `${DAY.format(date)}, ${CLOCK.format(date)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

function bytesText(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toPrecision(2)} ${units[at]}`;
}

// Asking the node

class Refused extends Error {
  constructor(status, told) {
    super(told.error || `the node answered ${status}`);
    this.status = status;
    this.told = told;
  }
}

async function ask(path, signal) {
  const token = sessionStorage.getItem("quorate-token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
  if (answer.ok) return answer;
  if (answer.status === 401) askForToken(Boolean(token));
  throw new Refused(answer.status, await answer.json().catch(() => ({})));
}

const askJson = async (path, signal) => (await ask(path, signal)).json();
const at = (offset, mark = "?") => (offset === null ? "" : `${mark}offset=${offset}`);

function askForToken(wasWrong) {
  $("token-form").hidden = false;
  $("token-problem").textContent = wasWrong ? "The node takes another one." : "";
  $("token").focus();
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("quorate-token", $("token").value.trim());
  $("token").value = "";
  $("token-form").hidden = true;
  show();
  followSoon(0);
});

// The events of the live page

let following = false;
let again = 0;

function followSoon(ms) {
  clearTimeout(again);
  again = setTimeout(follow, ms);
}

async function follow() {
  if (following) return;
  following = true;
  try {
    const answer = await ask("/page/events");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      held += value;
      const events = held.split("\n\n");
      held = events.pop();
      const last = events.pop();
      if (last) takeLive(JSON.parse(last.slice("data: ".length)));
    }
    followSoon(1000);
  } catch (error) {
    if (!(error instanceof Refused)) followSoon(2000);
    else if (error.status === 503) {
      // As many as the node takes follow it: look now and then.
      if (shown.offset === null) show();
      followSoon(5000);
    } else if (error.status !== 401 && error.status !== 404) followSoon(5000);
  } finally {
    following = false;
  }
}

function takeLive(summary) {
  heardAt = performance.now();
  if (shown.offset === null) {
    showSummary(summary);
    showHealth(summary.health);
    if (shown.mapOffset !== summary.offset) refreshSoon();
  } else {
    setReach(summary.earliest, summary.latest);
  }
}

let refreshing = 0;
function refreshSoon() {
  if (refreshing) return;
  refreshing = setTimeout(async () => {
    refreshing = 0;
    if (shown.offset !== null) return;
    const { signal } = asking;
    try {
      const rest = await askRest(signal);
      if (shown.offset !== null) return;
      showRest(rest);
      await showMore(signal);
    } catch {
      // The next event asks again.
    }
  }, 300);
}

setInterval(() => {
  const silent = Math.round((performance.now() - heardAt) / 1000);
  const lost = silent >= 5 && shown.summary !== null && shown.summary.node !== null;
  $("stale").hidden = !lost;
  if (!lost) return;
  const others = shown.summary.peers.filter((each) => each.origin !== location.origin);
  $("silence").textContent = `No word from ${shown.summary.place} for ${silent} s: this is what it said last. ${others.length ? "Others show the same:" : "Other nodes show the same page."}`;
  if ($("others").childElementCount !== others.length) fill($("others"), ...others.map((each) => linkTo(each)));
  goOnWith(others);
}, 1000);

function linkTo(peer, text = `${peer.node === null ? peer.origin : `node ${peer.node}`} `) {
  const link = make("a", "", text);
  link.href = `${peer.origin}/`;
  link.addEventListener("click", (event) => { event.preventDefault(); location.assign(`${peer.origin}/${location.hash}`); });
  return link;
}

// A node as a link to its page, if that is known.
function nodeLink(node, text = `node ${node}`) {
  const peer = shown.summary === null ? undefined : shown.summary.peers.find((each) => each.node === node);
  return peer === undefined || node === shown.summary.node ? document.createTextNode(text) : linkTo(peer, text);
}

function joined(parts) {
  const all = make("span");
  parts.forEach((each, index) => all.append(...(index ? [", "] : []), ...each));
  return all;
}

let seeking = false;
async function goOnWith(others) {
  if (seeking || !others.length) return;
  seeking = true;
  try {
    // Whoever answers first is there. What it answers, no page of another origin may read.
    const found = await Promise.any(others.map(async (peer) => {
      await fetch(`${peer.origin}/page/alive`, { mode: "no-cors", credentials: "omit", cache: "no-store", signal: AbortSignal.timeout(3000) });
      return peer.origin;
    }));
    if (!$("stale").hidden) location.assign(`${found}/${location.hash}`);
  } catch {
    // None of them is there either.
  } finally {
    seeking = false;
  }
}

// One moment

let showing = 0; // moments that were asked for and are not shown yet

async function show() {
  asking.abort();
  asking = new AbortController();
  const signal = asking.signal;
  try {
    await showMoment(signal);
    await showMore(signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof Refused && error.status === 404) {
      $("moment").textContent = error.message;
      const { earliest, latest } = error.told;
      if (earliest !== undefined && earliest !== null) go(earliest);
      else if (latest !== undefined) go(null);
    }
  }
}

async function showMoment(signal) {
  showing += 1;
  try {
    // All is asked for at once. A step is painted in one frame; who waits for the first sees each part when it is there.
    const asked = [askJson(`/page/api/summary${at(shown.offset)}`, signal), askRest(signal)];
    const both = Promise.all(asked);
    both.catch(() => {});
    const summary = shown.summary === null ? await asked[0] : (await both)[0];
    if (shown.offset === null) heardAt = performance.now();
    showSummary(summary);
    showRest((await both)[1]);
  } finally {
    showing -= 1;
  }
}

function askRest(signal) {
  const around = shown.offset === null ? "" : `?around=${shown.offset}`;
  return Promise.all([
    askJson(`/page/api/partitions${at(shown.offset)}`, signal),
    askJson(`/page/api/changes${around}`, signal),
  ]);
}

function showRest([map, changes]) {
  shown.map = map;
  shown.mapOffset = map.offset;
  shown.changes = changes.changes;
  showMap();
  showSick();
  showChanges();
  // For whoever waits for the whole page to be of one moment; the health has a mark of its own.
  document.body.dataset.shown = map.offset;
}

// What takes the node longer.
async function showMore(signal) {
  const [health] = await Promise.all([askHealth(signal), shown.topic === null ? null : showTopic(signal)]);
  showHealth(health);
  document.body.dataset.healthy = health === null ? "" : health.offset;
}

async function askHealth(signal) {
  try {
    return (await askJson(`/page/api/health${at(shown.offset)}`, signal)).health;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}

function showSummary(summary) {
  shown.summary = summary;
  const past = !summary.live;
  document.body.classList.toggle("past", past);
  document.body.dataset.offset = summary.offset;
  fill($("place"), document.createTextNode(summary.cluster === null ? summary.place : `${summary.place} of ${summary.cluster}`));
  showTitle();
  setReach(summary.earliest, summary.latest);
  const when = summary.time_ms === null ? "" : ` · ${timeText(summary.time_ms)}`;
  $("moment").textContent = `offset ${number(summary.offset)}${when} · epoch ${summary.epoch}`;
  $("link").href = `#offset=${summary.offset}`;
  $("live").setAttribute("aria-pressed", String(summary.live));
  $("live").disabled = summary.node === null;
  $("plots-section").hidden = summary.node === null;
  $("groups-section").hidden = past || !groupsKnown;
  if (past || !summary.counts.moving) fill($("moves"));
  else showMovesSoon();
  showCounts(summary.counts);
  showQuorum(summary);
  showBrokers(summary);
}

// Health

const said = (problem) => `${problem.where} ${problem.title}`;

function showTitle() {
  const sick = shown.health !== null && shown.health.total;
  document.title = `${sick ? "● " : ""}quorate${shown.summary === null ? "" : `, ${shown.summary.place}`}`;
}

function showHealth(health) {
  shown.health = health;
  const verdict = $("verdict");
  const past = shown.offset !== null;
  if (health === null) {
    verdict.textContent = "nobody looks for problems here";
    verdict.className = "pill";
    keepItems($("problems"), [], problemLine);
    $("known").hidden = true;
    return;
  }
  const { problems, total, sources } = health;
  const gaps = sources.some((each) => each.problem !== null && !each.elsewhere);
  if (total) verdict.textContent = said(problems[0]) + (total > 1 ? ` · ${number(total - 1)} more` : "");
  else verdict.textContent = (past ? "was well" : "well") + (gaps ? ", as far as is known" : "");
  verdict.className = `pill ${total ? (problems[0].severity === "critical" ? "offline" : "behind") : gaps ? "" : "well"}`;
  showTitle();
  const last = !total ? [past ? "No problem was in the metadata at this offset." : "No problem is found."]
    : total > problems.length ? [`and ${number(total - problems.length)} more`] : [];
  const focused = document.activeElement?.closest("#problems li")?.dataset.problem;
  const items = keepItems($("problems"), [...problems, ...last], (each) => (typeof each === "string" ? make("li", "quiet", each) : problemLine(each)));
  $("problems").classList.toggle("none", !total);
  // What is told of a problem changes while somebody reads about it.
  if (focused !== undefined && !$("problems").contains(document.activeElement)) items.find((each) => each.dataset.problem === focused)?.querySelector("summary").focus();
  showSources(sources, health.changes_since_ms);
}

// Text with commands between backticks.
function withCommands(element, text) {
  text.split("`").forEach((piece, at) => element.append(at % 2 ? make("code", "", piece) : piece));
  return element;
}

const facts = (...pairs) => {
  const all = make("dl");
  for (const [name, value] of pairs) if (value !== null) all.append(make("dt", "", name), value);
  return all;
};

const unfolded = new Set(); // the problems about which somebody reads more

// What the reference has of a problem of this kind: no node serves the documentation.
function aboutProblem(problem, key) {
  const about = make("details");
  about.open = unfolded.has(key);
  about.addEventListener("toggle", () => { if (about.open) unfolded.add(key); else unfolded.delete(key); });
  about.append(make("summary", "quiet", "About this problem"), facts(
    ["when", make("dd", "", problem.meaning)],
    ["alert", problem.alert === null ? make("dd", "quiet", "no metric tells") : withCommands(make("dd"), problem.alert)],
    ["more", make("dd", "quiet", `in the documentation: ${problem.pages.join(" and ")}`)],
  ));
  return about;
}

function problemLine(problem) {
  const line = make("li", problem.severity);
  const key = line.dataset.problem = `${problem.name} ${problem.where}`;
  const title = make("h3", "", said(problem));
  title.append(make("span", "severity", ` · ${problem.severity}`));
  const why = [problem.since_ms === null ? "" : `since ${timeText(problem.since_ms)}`, problem.why].filter(Boolean).join(": ")
    + (problem.until_ms === null ? "" : `; named until ${timeText(problem.until_ms)} unless it happens again`);
  line.append(title, facts(
    ["why", why ? make("dd", "", why) : null],
    ["threatens", make("dd", "", problem.threatens)],
    ["remedy", withCommands(make("dd"), problem.remedy)],
  ), aboutProblem(problem, key));
  return line;
}

function showSources(sources, since) {
  $("known").hidden = false;
  const unknown = sources.filter((each) => each.problem !== null);
  const age = (at) => {
    const seconds = Math.round((Date.now() - at) / 1000);
    return shown.offset !== null || Math.abs(seconds) > 3600 ? timeText(at) : `${Math.max(0, seconds)} s ago`;
  };
  $("known-line").textContent = `What this is made of${unknown.length ? `; not known here: ${unknown.map((each) => each.source).join(", ")}` : ""}`;
  const lines = sources.map((each) => row([[each.source, "name"], [each.problem === null ? (each.at_ms === null ? "as the log has it" : age(each.at_ms)) : each.problem, each.problem === null ? "" : "quiet"]]));
  if (since !== null) lines.push(row([["causes and times of changes", "name"], [`known since ${timeText(since)}`]]));
  table($("sources"), [["of"], ["known"]], lines);
}

function setReach(earliest, latest) {
  const slider = $("slider");
  slider.min = earliest;
  slider.max = latest;
  slider.value = shown.offset === null ? latest : shown.offset;
  slider.setAttribute("aria-valuetext", `offset ${slider.value}`);
}

function showCounts(counts) {
  if (!isNew($("counts"), counts)) return;
  const names = {
    brokers: "brokers", topics: "topics", partitions: "partitions", offline: "offline", behind: "replicas not in sync",
    moving: "moving", displaced: "not led by the first replica",
  };
  fill($("counts"), ...Object.entries(names).map(([name, words]) => {
    const entry = make("div", counts[name] ? name : "");
    entry.append(make("dt", "", words), make("dd", "", number(counts[name])));
    return entry;
  }));
}

function showQuorum(summary) {
  const quorum = summary.quorum;
  $("votes-part").hidden = quorum === null || !quorum.votes.length;
  if (quorum === null) {
    const elected = summary.elected;
    $("quorum-line").textContent = elected === null
      ? `Epoch ${summary.epoch}; who led it, the log no longer tells`
      : `Node ${elected.leader} led, since offset ${number(elected.offset)} (${timeText(elected.time_ms)}), by the votes of ${list(elected.granted)} among ${list(elected.voters)}`;
    fill($("quorum"));
    return;
  }
  table($("votes"), [["time"], ["epoch", "number"], [`node ${summary.node}`]],
    quorum.votes.map((each) => row([[timeText(each.time_ms), "quiet"], [String(each.epoch), "number"], [each.what]])));
  const age = quorum.told_ms_ago === null ? null : Math.round(quorum.told_ms_ago / 1000);
  $("quorum-line").textContent = (quorum.leader === null ? "No leader" : `Node ${quorum.leader} leads`)
    + `, epoch ${quorum.epoch}, committed below ${number(quorum.high_watermark)}`
    + (quorum.leader === null && quorum.told_by !== null ? `; the ends are what node ${quorum.told_by} said ${age} s ago` : "");
  const ends = quorum.replicas.map((each) => each.log_end_offset).filter((end) => end !== null && end >= 0);
  const top = Math.max(quorum.log_end_offset, ...ends);
  const low = Math.min(top, ...ends);
  const span = Math.max(100, (top - low) * 1.25);
  const place = (end) => `${Math.max(2, 100 * (1 - (top - end) / span))}%`;
  const rows = quorum.replicas.flatMap((each) => {
    const end = each.log_end_offset;
    const silent = each.silent_ms !== null && each.silent_ms > 3000;
    const track = make("div", "track");
    if (end !== null && end >= 0) {
      const bar = make("div", `bar${each.id === quorum.leader ? " leads" : ""}${silent ? " silent" : ""}`);
      bar.style.width = place(end);
      track.append(bar);
    }
    if (quorum.high_watermark !== null && each.voter) {
      const mark = make("div", "mark");
      mark.style.left = place(quorum.high_watermark);
      mark.title = `high watermark ${quorum.high_watermark}`;
      track.append(mark);
    }
    const role = each.id === quorum.leader ? "leader" : each.voter ? "voter" : "observer";
    const lag = end === null || end < 0 ? "end unknown" : end === top ? number(end) : `${number(end)}, ${number(top - end)} behind`;
    const told = silent ? `silent for ${Math.round(each.silent_ms / 1000)} s` : lag;
    return [make("span", "", `${each.id} ${role}`), track, make("span", silent ? "offline-text" : "quiet", told)];
  });
  fill($("quorum"), ...rows);
}

function showBrokers(summary) {
  const n = "number";
  showFolders(summary);
  if (!isNew($("brokers"), [summary.brokers, summary.peers])) return;
  table($("brokers"),
    [["broker"], ["state"], ["rack"], ["leads", n], ["in sync", n], ["dirs", `${n} spare`], ["listener", "spare"]],
    summary.brokers.map((each) => {
      const state = make("span", each.state, each.state);
      const cell = make("span");
      cell.append(state);
      if (each.reason) cell.append(make("span", "reason", ` ${each.reason}`));
      return row([
        [nodeLink(each.id, String(each.id))], [cell], [each.rack === null ? "–" : each.rack, "name"], [number(each.leads), n],
        [`${number(each.in_sync)} of ${number(each.replicas)}`, `${n}${each.in_sync < each.replicas ? " behind-text" : ""}`],
        [number(each.directories), `${n} spare`], [(each.listeners[0] || "–").replace(/^.*:\/\//, ""), "quiet spare"],
      ]);
    }));
}

function showFolders(summary) {
  const n = "number";
  const folders = summary.directories || [];
  fill($("directories"), folders.length ? table(make("table"), [["directory of this node"], ["free", n]], folders.map((each) =>
    row([[each.path, "name"], [each.failed ? "failed" : each.free_bytes === null ? "?" : bytesText(each.free_bytes), `${n}${each.failed ? " fenced" : ""}`]]))) : null);
  showOtherDisks(summary);
}

function showOtherDisks(summary) {
  const others = summary.live ? summary.peers.filter((each) => each.origin !== location.origin && each.node !== summary.node) : [];
  if (!isNew($("other-disks"), others)) return;
  fill($("other-disks"), ...(others.length ? ["The disks of the others are on their own pages: ", joined(others.map((each) => [linkTo(each, each.node === null ? each.origin : `node ${each.node}`)]))] : []));
}

// The map of partitions

let cells = []; // [x, y, topic, partition, state], by the row that they are in
let cell = 10;
let firsts = []; // of each topic the place of its first partition among the cells
let drawn = null; // the topics that the canvas shows

function showMap() {
  const { topics } = shown.map;
  const canvas = $("map");
  const shape = topics.map(([name, states]) => [name, states.length]);
  const pen = canvas.getContext("2d");
  if (isNew(canvas, shape) || drawn === null) {
    placeCells(canvas, topics);
    showNames(topics.slice(0, 500).map(([name]) => name));
    drawAll(pen);
  } else {
    // Most steps change a few of them.
    topics.forEach(([, states], index) => {
      const before = drawn[index][1];
      if (states === before) return;
      for (let at = 0; at < states.length; at += 1) {
        if (states[at] === before[at]) continue;
        const changed = cells[firsts[index] + at];
        changed[4] = states[at];
        drawCell(pen, changed);
      }
    });
  }
  drawn = topics;
  const counts = STATES.map(() => 0);
  for (const [, states] of topics) for (let at = 0; at < states.length; at += 1) counts[Number(states[at])] += 1;
  if (!isNew($("legend"), counts)) return;
  fill($("legend"), ...STATES.map((name, state) => (counts[state] || state === 0 ? make("span", name, `${number(counts[state])} ${WORDS[state]}`) : null)));
  canvas.setAttribute("aria-label", `${number(cells.length - topics.length)} partitions: ${counts.map((count, state) => `${count} ${WORDS[state]}`).join(", ")}`);
}

// After a change of its width or of the colours.
function showMapAnew() {
  drawn = null;
  if (shown.map) showMap();
}

let colours = [];
let left = 0; // the width of the topics' names

function placeCells(canvas, topics) {
  const total = topics.reduce((sum, each) => sum + each[1].length, 0);
  const width = canvas.parentElement.clientWidth - 28;
  cell = total > 20000 ? 4 : total > 4000 ? 6 : total > 600 ? 9 : 14;
  const gap = cell > 5 ? 2 : 1;
  const named = topics.length <= 24;
  left = named ? Math.min(190, Math.round(width * 0.32)) : 0;
  cells = [];
  firsts = [];
  let [x, y] = [left, 0];
  for (const [topic, states] of topics) {
    if (named) [x, y] = [left, cells.length || y ? y + cell + gap + 4 : 0];
    cells.push([0, y, topic, -1, "-"]);
    firsts.push(cells.length);
    for (let at = 0; at < states.length; at += 1) {
      if (x + cell > width) [x, y] = [left, y + cell + gap];
      cells.push([x, y, topic, at, states[at]]);
      x += cell + gap;
    }
    if (!named) x += cell + gap;
  }
  const height = y + cell + 4;
  const scale = window.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = `${height}px`;
  canvas.style.width = `${width}px`;
  canvas.getContext("2d").scale(scale, scale);
}

function drawAll(pen) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  colours = [...STATES, "card"].map(colour);
  pen.font = `12px system-ui, "Liberation Sans", sans-serif`;
  pen.textBaseline = "middle";
  const ink = colour("ink");
  for (const each of cells) {
    const [, top, topic, partition] = each;
    if (partition >= 0) drawCell(pen, each);
    else if (left) {
      pen.fillStyle = ink;
      let text = topic;
      while (text.length > 3 && pen.measureText(text).width > left - 12) text = `${text.slice(0, -2)}…`;
      pen.fillText(text, 0, top + cell / 2 + 1);
    }
  }
}

function drawCell(pen, [x, top, , , state]) {
  pen.fillStyle = colours[Number(state)];
  pen.fillRect(x, top, cell, cell);
  if (cell < 9 || state < "3") return;
  // Not by colour alone.
  pen.strokeStyle = colours[STATES.length];
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x + 3, top + cell - 3);
  pen.lineTo(x + cell - 3, top + 3);
  if (state === "4") {
    pen.moveTo(x + 3, top + 3);
    pen.lineTo(x + cell - 3, top + cell - 3);
  }
  pen.stroke();
}

function showNames(topics) {
  if (!isNew($("topics"), topics)) return;
  fill($("topics"), ...topics.map((name) => {
    const option = document.createElement("option");
    option.value = name;
    return option;
  }));
}

function under(event) {
  const box = $("map").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  return cells.find(([left, top, , partition]) => partition >= 0 && x >= left && x < left + cell + 2 && y >= top && y < top + cell + 2);
}

$("map").addEventListener("mousemove", (event) => {
  const found = under(event);
  if (found === undefined) {
    $("under").textContent = "";
    return;
  }
  const [, , topic, partition, state] = found;
  const leader = shown.map.topics.find(([name]) => name === topic)[2][partition];
  $("under").textContent = `${topic}-${partition}: ${WORDS[Number(state)]}, leader ${leaderText(leader)}`;
});
$("map").addEventListener("click", (event) => {
  const found = under(event);
  if (found !== undefined) chooseTopic(found[2]);
});

const HEADS = [["partition"], ["leader"], ["epoch", "number"], ["replicas"], ["in sync"], ["eligible"]];

function partitionRow(name, each) {
  const moving = [...each.adding.map((id) => `+${id}`), ...each.removing.map((id) => `−${id}`)].join(" ");
  return row([
    [name, "name"], [leaderText(each.leader), each.leader < 0 ? "offline-text" : ""], [String(each.leader_epoch), "number"],
    [list(each.replicas) + (moving ? ` (${moving})` : "")],
    [list(each.isr), each.isr.length < each.replicas.length ? "behind-text" : ""], [each.elr.length ? list(each.elr) : "–", "quiet"],
  ]);
}

const SICK = [["offline", "Offline"], ["behind", "Not in sync"], ["moving", "Moving"]].map(([name, title]) => {
  const element = make("table", `sick-${name}`);
  const holder = make("div", "scroll");
  holder.tabIndex = 0;
  holder.append(table(element, HEADS, [], title));
  return { name, title, element, holder };
});

function showSick() {
  for (const { name, title, element, holder } of SICK) {
    const { total, first } = shown.map[name];
    const more = total > first.length ? `, the first ${first.length}` : "";
    element.caption.textContent = `${title}: ${number(total)}${more}`;
    keepItems(element.tBodies[0], first, (each) => partitionRow(`${each.topic}-${each.partition}`, each));
  }
  if (isNew($("sick"), SICK.map(({ name }) => shown.map[name].total > 0))) {
    fill($("sick"), ...SICK.map(({ name, holder }) => (shown.map[name].total ? holder : null)));
  }
}

// What is left of the moves that this node leads

let movesAt = -Infinity;
async function showMovesSoon() {
  if (performance.now() - movesAt < 2000) return;
  movesAt = performance.now();
  try {
    const { moves } = await askJson("/page/api/moves");
    if (shown.offset !== null || moves === null || !moves.total) {
      fill($("moves"));
      return;
    }
    const others = moves.total - moves.here;
    const time = moves.seconds_left === null ? "" : `, at the pace of the last half minute ${durationText(moves.seconds_left)}`;
    const text = `Of the partitions that move, this node leads ${number(moves.here)}: about ${bytesText(moves.bytes_left)} left to copy${time}.`
      + (others ? ` What is left of the other ${number(others)} is on the pages of their leaders.` : "");
    const holder = make("div", "scroll");
    holder.tabIndex = 0;
    if (moves.first.length) {
      holder.append(table(make("table"), [["partition"], ["records that new replicas lack"], ["about", "number"]], moves.first.map((each) => row([
        [`${each.topic}-${each.partition}`, "name"],
        [Object.entries(each.records).map(([broker, count]) => `broker ${broker}: ${number(count)}`).join(", ") || "–"],
        [bytesText(each.bytes_left), "number"],
      ]))));
    }
    fill($("moves"), make("p", "", text), holder);
  } catch (error) {
    if (!(error instanceof Refused) && !(error instanceof TypeError)) throw error;
  }
}

const durationText = (seconds) => (seconds < 120 ? `${seconds} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`);

// One topic

function chooseTopic(name) {
  shown.topic = name || null;
  $("topic").value = name;
  setHash();
  showTopic(asking.signal).catch(() => {});
}

async function showTopic(signal) {
  if (shown.topic === null) {
    fill($("topic-table"));
    return;
  }
  try {
    const told = await askJson(`/page/api/topic?name=${encodeURIComponent(shown.topic)}${at(shown.offset, "&")}`, signal);
    const holder = make("div", "scroll");
    holder.tabIndex = 0;
    holder.append(table(make("table"), HEADS, told.partitions.map((each, index) => partitionRow(String(index), each)),
      `${told.topic}: ${number(told.total)} partitions`));
    fill($("topic-table"), holder);
  } catch (error) {
    if (error instanceof Refused) fill($("topic-table"), make("p", "quiet", error.message));
    else throw error;
  }
}

$("topic-form").addEventListener("submit", (event) => {
  event.preventDefault();
  chooseTopic($("topic").value);
});

// Changes

const here = () => (shown.offset === null ? shown.mapOffset : shown.offset);

function showChanges() {
  const current = here();
  const latestFirst = [...shown.changes].reverse();
  const later = latestFirst.filter((each) => each.offset > current).length;
  const line = (each) => {
    const jump = make("button", "offset", number(each.offset));
    jump.type = "button";
    jump.title = "Show the cluster at this offset";
    jump.addEventListener("click", () => go(each.offset));
    const place = each.topic === null ? "" : each.topic + (each.partition === null ? "" : `-${each.partition}`);
    const more = each.alike ? ` (and ${number(each.alike)} more alike)` : "";
    return row([[jump, "number"], [timeText(each.time_ms), "quiet"], [place, "name"], [each.what + more], [each.reason || "", "reason"]]);
  };
  const heads = latestFirst.length ? [["offset", "number"], ["time"], ["partition"], ["change"], ["reason"]] : [["no change around here"]];
  if (isNew($("changes"), heads)) table($("changes"), heads, []);
  keepItems($("changes").tBodies[0], latestFirst, line).forEach((each, index) => {
    each.className = index < later ? "after" : index === later && shown.offset !== null ? "here" : "";
  });
  $("earlier").disabled = !shown.changes.some((each) => each.offset < current);
  $("later").disabled = !later;
}

$("earlier").addEventListener("click", () => jump(-1));
$("later").addEventListener("click", () => jump(1));
function jump(way) {
  const offsets = shown.changes.map((each) => each.offset);
  const current = here();
  const found = way < 0 ? offsets.filter((each) => each < current).at(-1) : offsets.find((each) => each > current);
  if (found !== undefined) go(found);
}

// Time

let waiting = 0;
function go(offset, patience = 0) {
  shown.offset = offset;
  setHash();
  $("slider").value = offset === null ? $("slider").max : offset;
  clearTimeout(waiting);
  waiting = setTimeout(show, patience);
}

function setHash() {
  const parts = [];
  if (shown.offset !== null) parts.push(`offset=${shown.offset}`);
  if (shown.topic !== null) parts.push(`topic=${encodeURIComponent(shown.topic)}`);
  history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname);
}

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  const offset = given.get("offset");
  shown.offset = offset !== null && /^\d{1,19}$/.test(offset) ? Number(offset) : null;
  shown.topic = given.get("topic");
  if (shown.topic !== null) $("topic").value = shown.topic;
}

$("slider").addEventListener("input", () => {
  const slider = $("slider");
  const atEnd = Number(slider.value) >= Number(slider.max) && shown.summary !== null && shown.summary.node !== null;
  $("moment").textContent = `offset ${number(Number(slider.value))} …`;
  // While a moment is on its way, no other is asked for at once.
  go(atEnd ? null : Number(slider.value), showing ? 80 : 0);
});
$("live").addEventListener("click", () => go(null));
$("link").addEventListener("click", (event) => {
  event.preventDefault();
  const link = new URL($("link").getAttribute("href"), location.href).href;
  if (navigator.clipboard) navigator.clipboard.writeText(link).then(() => { $("link").textContent = "Copied"; }, () => {});
  setTimeout(() => { $("link").textContent = "Link to this offset"; }, 1500);
  go(shown.summary.offset);
});
document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLInputElement && event.target.type !== "range") return;
  if (event.key === ",") jump(-1);
  if (event.key === ".") jump(1);
});
window.addEventListener("hashchange", () => { readHash(); show(); });
let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(showMapAnew, 100);
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showMapAnew);

// Plots

const SVG = "http://www.w3.org/2000/svg";
const HOUR_MS = 3600_000;
// `times`: of the values, the last is now; without them there is a value each 5 s. A null is unknown.
function plot(name, values, times = null) {
  const place = times === null
    ? (index) => 720 - values.length + index + 1
    : (index) => (720 * (1 - (times.at(-1) - times[times.length - values.length + index]) / HOUR_MS)).toFixed(1);
  const top = Math.max(...values, 0);
  const isBytes = name.includes("bytes");
  const text = (value) => (isBytes ? `${bytesText(value)}/s` : `${value >= 100 ? Math.round(value) : Number(value.toPrecision(2))}`);
  const holder = make("figure");
  holder.style.margin = "0";
  const title = make("p", "quiet");
  title.append(make("span", "", isBytes ? name.replace(" bytes/s", "") : name), make("b", "", values.length && values.at(-1) !== null ? text(values.at(-1)) : "–"));
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 720 48");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${name}: at most ${text(top)} within the last hour`);
  const base = document.createElementNS(SVG, "line");
  for (const [key, value] of [["x1", 0], ["x2", 720], ["y1", 47.5], ["y2", 47.5]]) base.setAttribute(key, value);
  svg.append(base);
  let points = [];
  const draw = () => {
    const curve = document.createElementNS(SVG, "polyline");
    curve.setAttribute("points", points.join(" "));
    if (points.length) svg.append(curve);
    points = [];
  };
  values.forEach((value, index) => {
    if (value === null) draw();
    else points.push(`${place(index)},${top ? (47 - (45 * value) / top).toFixed(1) : 47}`);
  });
  draw();
  const foot = make("p", "quiet");
  foot.append(make("span", "", "1 h ago"), make("span", "", `highest ${text(top)}`), make("span", "", "now"));
  holder.append(title, svg, foot);
  return holder;
}

async function showPlots() {
  if (document.hidden || (shown.summary !== null && shown.summary.node === null)) return;
  try {
    const recent = await askJson("/page/api/recent");
    fill($("plots"), ...Object.entries(recent.series).map(([name, values]) => plot(name, values)));
  } catch (error) {
    if (!(error instanceof Refused) && !(error instanceof TypeError)) throw error;
  }
}

// Groups

let groupsKnown = false;
let group = null; // the one that is asked for by its name

const membersText = (each) => (each.rebalancing_since_ms === null ? each.state : `${each.state}, since ${timeText(each.rebalancing_since_ms)}`);

function lagText(each) {
  if (each.lag === null) return `not known here: no replica of its ${number(each.unknown)} partitions`;
  return number(each.lag) + (each.unknown ? `, and ${number(each.unknown)} partitions not known here` : "");
}

function groupRow(each) {
  return row([[each.group, "name"], [membersText(each), each.state.endsWith("Rebalance") ? "behind-text" : ""],
    [number(each.members), "number"], [number(each.known + each.unknown), "number spare"], [lagText(each), "number"]]);
}

async function showGroups() {
  if (document.hidden || shown.offset !== null || (shown.summary !== null && shown.summary.node === null)) return;
  try {
    const told = await askJson("/page/api/groups");
    groupsKnown = true;
    $("groups-section").hidden = shown.offset !== null;
    const { total, groups, loading, coordinators } = told;
    const others = Object.entries(coordinators).filter(([id]) => Number(id) !== shown.summary.node);
    const age = told.at_ms === null ? "" : `, as of ${timeText(told.at_ms)}`;
    fill($("groups-line"),
      `${total ? `This node coordinates ${number(total)} group${total === 1 ? "" : "s"}` : "This node coordinates no group"}${age}`
        + `${groups.length < total ? `; the ${number(groups.length)} with the most lag` : ""}${loading ? `; ${number(loading)} partitions of groups are being loaded` : ""}. `,
      ...(others.length ? ["Other groups are told by their coordinators: ", joined(others.map(([id, count]) =>
        [id === "-1" ? "nobody" : nodeLink(Number(id)), ` (${number(count)} partitions of __consumer_offsets)`]))] : []));
    table($("groups"), [["group"], ["state"], ["members", "number"], ["partitions", "number spare"], ["lag", "number"]], groups.map(groupRow));
    $("groups").hidden = !groups.length;
    fill($("group-plots"), ...Object.entries(told.series).map(([name, values]) => plot(name, values, told.times)));
    await showGroup();
  } catch (error) {
    if (error instanceof Refused && error.status === 404) {
      groupsKnown = false;
      $("groups-section").hidden = true;
    } else if (!(error instanceof Refused) && !(error instanceof TypeError)) throw error;
  }
}

async function showGroup() {
  if (group === null) {
    fill($("group-told"));
    return;
  }
  const told = await askJson(`/page/api/groups?name=${encodeURIComponent(group)}`);
  const who = make("p");
  if (told.coordinator === null) who.append(`Nobody coordinates ${told.group}.`);
  else if (told.coordinator !== shown.summary.node) who.append(`${told.group} is coordinated by `, nodeLink(told.coordinator), ": its page tells of it.");
  else if (told.found === null) who.append(`This node coordinates ${told.group}, and finds no such group.`);
  const lines = make("table");
  if (told.found !== null) table(lines, [["group"], ["state"], ["members", "number"], ["partitions", "number spare"], ["lag", "number"]], [groupRow(told.found)]);
  const plots = make("div", "plots");
  if (told.series !== null) plots.append(plot(told.group, told.series, told.times));
  fill($("group-told"), who, told.found === null ? null : lines, plots);
}

$("group-form").addEventListener("submit", (event) => {
  event.preventDefault();
  group = $("group").value || null;
  showGroup().catch(() => {});
});

readHash();
await show();
follow();
showPlots();
showGroups();
setInterval(() => { showPlots(); showGroups(); }, 10000);
