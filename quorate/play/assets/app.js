// The state of the page: a start, steps, and a position among them. The server plays the production core.
import { draw } from "./draw.js";

const byId = (id) => document.getElementById(id);
const state = { start: { nodes: 3 }, wrongRule: null, steps: [], position: 0, story: null,
  storyName: "", rules: [], selected: 1, view: null };
let busy = Promise.resolve();

async function ask(path, content) {
  const options = content === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content),
  };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer. Start quorate raft play again, and open its new address.");
  }
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

function play(steps, position) {
  const content = { start: state.start, wrongRule: state.wrongRule, steps: steps.slice(0, position) };
  // One after another, so that quick keys are not lost and answers come in order.
  busy = busy.then(async () => {
    try {
      state.view = await ask("play", content);
      Object.assign(state, { steps, position });
      show();
      complain("");
    } catch (error) {
      complain(error.message);
    }
  });
  return busy;
}

const take = (step) => busy.then(() => {
  const steps = [...state.steps.slice(0, state.position), step];
  return play(steps, steps.length);
});
const goTo = (position) => busy.then(() => {
  if (position >= 0 && position <= state.steps.length) return play(state.steps, position);
});

function complain(text) {
  byId("error").textContent = text.replace(/^step \d+: /, "");
  byId("error").hidden = text === "";
}

// --- stories ---

const ruleOf = () => (state.wrongRule === null ? "right" : "wrong");
const played = () => state.story?.plays[ruleOf()] ?? null;

function onStory() {
  const story = played();
  const same = (count) => JSON.stringify(story.steps.slice(0, count)) === JSON.stringify(state.steps.slice(0, count));
  return story !== null && state.position <= story.steps.length && same(state.position);
}

async function openStory(name, rule, position) {
  const story = name === "" ? null : await ask(`stories/${encodeURIComponent(name)}`);
  await begin(story, name, rule, position);
}

// Voters of the configuration, or the first nodes in the log: then they can change.
function ownStart() {
  const [nodes, voters] = [Number(byId("nodes").value), Number(byId("voters").value)];
  return voters === 0 ? { nodes } : { nodes, voters: Math.min(voters, nodes), dynamic: true };
}

function showOwn() {
  const { nodes, dynamic, voters } = state.start;
  byId("own").hidden = state.story !== null;
  if (state.story !== null) return;  // a script may have more nodes than are offered here
  byId("nodes").value = String(nodes);
  const first = Array.from({ length: nodes }, (_, index) => index + 1).reverse();
  const options = first.map((count) => [String(count), `${count === nodes ? "all" : `the first ${count}`}, can change`]);
  fill(byId("voters"), [["0", "all, fixed"], ...options], dynamic ? String(voters) : "0");
}

async function begin(story, name, rule, position) {
  state.story = story;
  state.storyName = name;
  if (story !== null) state.start = story.start;
  else state.start = ownStart();
  const wrong = story === null ? rule : rule === "wrong" && story.wrongRule !== null ? story.wrongRule.name : null;
  state.wrongRule = wrong === "right" ? null : wrong;
  if (!state.start.nodes || state.selected > state.start.nodes) state.selected = 1;
  const steps = played()?.steps ?? [];
  await play(steps, Math.min(Math.max(position, 0), steps.length));
}

function showRules() {
  const rules = state.story === null ? state.rules : state.story.wrongRule === null ? [] : [state.story.wrongRule];
  const options = [["right", "as the core has it"], ...rules.map((each) => [each.name, `wrong: ${each.wrong}`])];
  fill(byId("rule"), options, state.wrongRule ?? "right");
}

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === chosen)));
}

// --- what is shown ---

function element(name, text, className = "") {
  const found = document.createElement(name);
  found.textContent = text;
  if (className) found.className = className;
  return found;
}

function button(text, act, key = "") {
  const found = element("button", text);
  found.type = "button";
  if (key) found.append(" ", element("kbd", key));
  found.addEventListener("click", act);
  return found;
}

function show() {
  const { view, position, steps } = state;
  draw(byId("world"), view, state.selected, { select, deliver, drop, light });
  showTale();
  showRules();
  showOwn();
  byId("story").value = state.story !== null && !state.storyName ? "opened" : state.storyName;
  Object.assign(byId("slider"), { max: steps.length, value: position });
  byId("back").disabled = position === 0;
  byId("next").disabled = position === steps.length;
  byId("where").textContent = `${position} of ${steps.length} steps${position ? `: ${stepText(steps[position - 1])}` : ""}`;
  byId("violations").hidden = view.violations.length === 0;
  byId("violations").replaceChildren(...view.violations.map((each) => {
    const line = element("p", "");
    line.append(element("strong", each.invariant), ` is broken: ${each.text}`);
    return line;
  }));
  showMessages();
  const last = position ? view.happened[position - 1] : [];
  byId("happened").replaceChildren(...(last.length ? last.map((each) =>
    element("li", `${each.node === null ? "" : `Node ${each.node} `}${each.text}`, each.kind))
    : [element("li", "Nothing yet.", "none")]));
  showNode();
  document.body.dataset.position = position;
  document.body.dataset.violations = view.violations.map((each) => each.invariant).join(",");
  const address = new URLSearchParams();
  if (state.storyName) address.set("story", state.storyName);
  if (state.story !== null || state.wrongRule !== null) address.set("rule", state.story === null ? state.wrongRule : ruleOf());
  if (onStory()) address.set("step", position);
  history.replaceState(null, "", `?${address}`);
}

function showTale() {
  const { story } = state;
  const on = onStory();
  byId("return").hidden = story === null || on;
  byId("title").textContent = story === null ? "A quorum of your own" : story.title;
  const lines = [];
  if (story === null) {
    lines.push(element("p", "Select a node and let its election timer fire. Click a message to deliver it, or with shift to drop it."));
  } else {
    if (state.position === 0 && story.source) lines.push(element("p", `Source: ${story.source}`, "source"));
    if (!on) lines.push(element("p", "You have left the story."));
    else {
      // What was said last stays, while the steps that it announced are taken.
      const says = played().says.slice(0, state.position + 1);
      const last = says.findLastIndex((each) => each.length > 0);
      const past = last < state.position ? "past" : "";
      for (const text of says[last] ?? []) lines.push(element("p", text, past));
    }
  }
  const rule = story === null ? state.rules.find((each) => each.name === state.wrongRule) : story.wrongRule;
  if (rule) {
    const text = state.wrongRule === null ? `The rule: ${rule.right}` : `A wrong rule is played: ${rule.wrong}`;
    lines.push(element("p", text, "rule"));
  }
  byId("says").replaceChildren(...lines);
}

function stepText(step) {
  const { step: name, source, destination, kind, node, timer, peer, text, one, other, nodes, rounds, sync, power } = step;
  const { voter, successor, host, stores, damaged } = step;
  switch (name) {
    case "add-voter": return `node ${node} is asked to make node ${voter} a voter`;
    case "remove-voter": return `node ${node} is asked to remove voter ${voter}`;
    case "update-voter": return `node ${node} is asked to note that voter ${voter} listens on ${host}`;
    case "adopt-voters": return `node ${node} is asked to write the voters into the log`;
    case "transfer": return `node ${node} is asked to hand over to node ${successor}`;
    case "check": return `node ${node} has checked its snapshot${damaged ? ": it is damaged" : ""}`;
    case "snapshot": return `node ${node} takes a snapshot`;
    case "trim": return `node ${node} removes what its snapshot holds`;
    case "doom": return `node ${node} will crash before it stores for the ${stores ?? 1}. time`;
    case "wipe": return `node ${node} gets a new disk`;
    case "unreachable": return `node ${node} loses its connection to node ${peer}`;
    case "give-up": return `node ${node} gives up its request to node ${peer}`;
    case "repeat": return `deliver a copy of ${kind} from ${source} to ${destination}`;
    case "deliver": case "drop": return `${name} ${kind} from ${source} to ${destination}`;
    case "exchange": return `${sync ? "deliver and store" : "deliver"} among ${nodes ? nodes.join(", ") : "all"}, ${rounds ?? 1} rounds at most`;
    case "fire": return `the ${timer} timer of node ${node} fires${peer ? ` (${peer})` : ""}`;
    case "propose": return `propose ${text} to node ${node}`;
    case "crash": return `node ${node} ${power ? "loses power" : "crashes"}`;
    case "cut": case "heal": return `${name} the link of ${one} and ${other}`;
    case "tick": return "a moment passes";
    case "lose": return "all messages are lost";
    default: return `${name} node ${node}`;
  }
}

function showMessages() {
  const rows = state.view.messages.map((message) => {
    const row = element("li", "");
    row.dataset.message = message.id;
    const told = element("span", `${message.source} → ${message.destination} ${message.kind}`);
    told.append(element("small", message.text));
    const go = button("Deliver", () => deliver(message));
    go.disabled = !message.ready;
    row.append(told, go, button("Drop", () => drop(message)));
    row.addEventListener("mouseenter", () => light(message.id, true));
    row.addEventListener("mouseleave", () => light(message.id, false));
    return row;
  });
  byId("messages").replaceChildren(...(rows.length ? rows : [element("li", "None.", "none")]));
}

function light(id, on) {
  for (const each of document.querySelectorAll(`[data-message="${id}"]`)) each.classList.toggle("lit", on);
}

const deliver = (message) => take(message.deliver);
const drop = (message) => take(message.drop);

function select(id) {
  state.selected = id;
  show();
  document.querySelector(`[data-node="${id}"]`)?.focus();
}

const chosen = () => state.view.nodes.find((node) => node.id === state.selected);

// The keys that do something to the selected node now, and what they do.
function nodeActions(node) {
  const on = { node: node.id };
  if (node.role === "down") return [["r", "Restart", { step: "restart", ...on }], ["d", "New disk", { step: "wipe", ...on }]];
  const found = [
    ["c", "Crash", { step: "crash", ...on }],
    ["w", "Lose power", { step: "crash", ...on, power: true }],
  ];
  if (node.paused) return [["p", "Resume", { step: "resume", ...on }], ...found];
  found.push(["p", "Pause", { step: "pause", ...on }]);
  if (node.synced < node.records.length) found.push(["s", "Finish the disk's write", { step: "sync", ...on }]);
  found.push(["g", "Read", { step: "read", ...on }]);
  if (node.role === "leader") found.push(["e", "Resign", { step: "resign", ...on }]);
  if (Math.min(node.committed, node.synced) > node.snapshot) found.push(["o", "Take a snapshot", { step: "snapshot", ...on }]);
  if (node.snapshot > node.logStart) found.push(["m", "Trim the log", { step: "trim", ...on }]);
  if (node.checking) found.push(["v", "Check the snapshot", { step: "check", ...on }]);
  return found;
}

const LONG = ["election", "fetch", "check-quorum"];

function showNode() {
  const node = chosen();
  byId("node-title").textContent = `Node ${node.id}`;
  const leader = node.leader === null ? "knows no leader" : `leader ${node.leader}`;
  const snapshot = node.snapshot ? `, a snapshot to ${node.snapshot}` : "";
  const voters = state.view.dynamic && node.role !== "down" ? `; voters ${node.voters.join(", ") || "unknown"}` : "";
  const disk = `${node.synced} of ${node.records.length} records durable, ${node.committed} committed${snapshot}${voters}`;
  byId("node-state").textContent = node.stoppedBy
    ? `It ended itself: ${node.stoppedBy}` : `${node.role}, epoch ${node.epoch}, ${leader}; ${disk}`;
  byId("node-buttons").replaceChildren(...nodeActions(node).map(([key, text, step]) => button(text, () => take(step), key)));
  const live = node.role !== "down" && !node.paused;
  byId("propose").hidden = !live;
  const long = node.timers.find((each) => LONG.includes(each.step.timer));
  byId("node-timers").replaceChildren(...node.timers.map((each) =>
    button(`Fire ${each.label}`, () => take(each.step), each === long ? "t" : "")));
  const cuts = new Set(state.view.cuts.map((pair) => pair.join()));
  byId("node-links").replaceChildren(...state.view.nodes.filter((each) => each.id !== node.id).map((each) => {
    const [one, other] = [node.id, each.id].sort((a, b) => a - b);
    const step = cuts.has(`${one},${other}`) ? "heal" : "cut";
    return button(`${step === "cut" ? "Cut" : "Heal"} link to ${each.id}`, () => take({ step, one, other }));
  }));
  showVoters(node);
}

function showVoters(node) {
  if (node.role !== "leader" || node.paused) return byId("node-voters").replaceChildren();
  const on = { node: node.id };
  const changes = state.view.nodes.map((each) => {
    const step = node.voters.includes(each.id) ? "remove-voter" : "add-voter";
    const text = `${step === "add-voter" ? "Add" : "Remove"} voter ${each.id}`;
    return button(text, () => take({ step, ...on, voter: each.id }));
  });
  const adopt = button("Write the voters into the log", () => take({ step: "adopt-voters", ...on }));
  byId("node-voters").replaceChildren(...(state.view.dynamic ? changes : [adopt]));
}

// --- keys and controls ---

const COMMON = {
  x: { step: "exchange" }, a: { step: "exchange", rounds: 50, sync: true }, k: { step: "tick" }, l: { step: "lose" },
};

function press(key) {
  const node = chosen();
  if (key in COMMON) return take(COMMON[key]);
  if (key === "ArrowLeft" || key === "z") return goTo(state.position - 1);
  if (key === "ArrowRight" || key === "y") return goTo(state.position + 1);
  if (key === "n") return byId("record").select();
  if (key === "t") {
    const timer = node.timers.find((each) => LONG.includes(each.step.timer));
    return timer && take(timer.step);
  }
  if (state.view.nodes.some((each) => String(each.id) === key)) return select(Number(key));
  const action = nodeActions(node).find(([its]) => its === key);
  return action && take(action[2]);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea") && event.target.type !== "range";
  if (typing || event.ctrlKey || event.metaKey || event.altKey || state.view === null) return;
  if (event.target.type === "range" && event.key.startsWith("Arrow")) return;
  press(event.key);
});
for (const each of document.querySelectorAll("[data-key]")) each.addEventListener("click", () => press(each.dataset.key));
byId("back").addEventListener("click", () => goTo(state.position - 1));
byId("next").addEventListener("click", () => goTo(state.position + 1));
byId("slider").addEventListener("input", (event) => goTo(Number(event.target.value)));
byId("return").addEventListener("click", () => {
  const { steps } = played();
  let common = 0;
  while (common < state.position && JSON.stringify(steps[common]) === JSON.stringify(state.steps[common])) common += 1;
  play(steps, common);
});
byId("propose").addEventListener("submit", (event) => {
  event.preventDefault();
  take({ step: "propose", node: state.selected, text: byId("record").value });
  byId("record").blur();
});
const guarded = (act) => act().catch((error) => complain(error.message));
byId("story").addEventListener("change", (event) => guarded(() => openStory(event.target.value, "right", 0)));
for (const id of ["nodes", "voters"]) {
  byId(id).addEventListener("change", () => guarded(() => begin(null, "", state.wrongRule ?? "right", 0)));
}
byId("rule").addEventListener("change", (event) => guarded(() => {
  const rule = event.target.value;
  if (state.story === null) return begin(null, "", rule, 0);
  return begin(state.story, state.storyName, rule === "right" ? "right" : "wrong", state.position);
}));
byId("save").addEventListener("click", () => guarded(async () => {
  const { start, wrongRule, position } = state;
  const title = state.story === null ? "My quorum" : state.story.title;
  const { text } = await ask("save", { start, wrongRule, title, steps: state.steps.slice(0, position) });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "quorum.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
}));
byId("open").addEventListener("change", (event) => guarded(async () => {
  const text = await event.target.files[0].text();
  event.target.value = "";
  const story = await ask("open", { text });
  await begin(story, "", story.plays.wrong ? "wrong" : "right", 0);
}));
new ResizeObserver(() => state.view && draw(byId("world"), state.view, state.selected, { select, deliver, drop, light }))
  .observe(byId("stage"));

guarded(async () => {
  const { stories, rules, opens, nodes } = await ask("stories");
  state.rules = rules;
  fill(byId("story"), [["", "none: play freely"], ...stories.map((each) => [each.name, each.title])], "");
  byId("story").add(Object.assign(new Option("the script that was opened", "opened"), { hidden: true }));
  fill(byId("nodes"), nodes.map((each) => [String(each), String(each)]), "3");
  fill(byId("voters"), [["0", "all, fixed"]], "0");
  const wanted = new URLSearchParams(location.search);
  const name = wanted.get("story") ?? (opens && !location.search ? "own" : "");
  await openStory(name, wanted.get("rule") ?? "right", Number(wanted.get("step") ?? 0));
});
