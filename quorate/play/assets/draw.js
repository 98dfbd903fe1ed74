// The world as SVG. All text is set as text.

const SVG = "http://www.w3.org/2000/svg";
const SHORT = {
  "pre-vote": "pre?", "pre-vote answer": "pre", "vote": "vote?", "vote answer": "vote", "begin epoch": "lead",
  "begin epoch answer": "ok", "end epoch": "end", "end epoch answer": "ok", "fetch": "fetch", "fetch answer": "data",
  "fetch snapshot": "snap?", "fetch snapshot answer": "snap",
};

function make(name, attributes, ...children) {
  const found = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

function words(text, attributes) {
  const found = make("text", attributes);
  found.textContent = text;
  return found;
}

export function epochClass(epoch) {
  return `e${((epoch - 1) % 8) + 1}`;
}

// Places on an ellipse, the first node at the top.
function places(count, width, height) {
  const [x, y] = [width / 2, height / 2 - 18];
  const [across, down] = [width / 2 - (width < 600 ? 74 : 130), height / 2 - 84];
  return Array.from({ length: count }, (_, index) => {
    const turn = (2 * Math.PI * index) / count - Math.PI / 2;
    return count === 1 ? { x, y } : { x: x + across * Math.cos(turn), y: y + down * Math.sin(turn) };
  });
}

const boxAround = (x, y, width, height) => ({ left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 });

// What of a node no message may cover, with some room: its circle, its words and its log.
function boxesOf(node, place, narrow) {
  const size = narrow ? 22 : 36;
  const records = Math.min(node.records.length - node.logStart, node.logStart ? 5 : 6) + (node.logStart ? 1 : 0);
  return [
    boxAround(place.x, place.y, 60, 60),
    boxAround(place.x, place.y + 43, 8 * roleOf(node).length, 16),
    boxAround(place.x, place.y + 59, 6.4 * factsOf(node).length, 16),
    boxAround(place.x, place.y + 84, records * size + 2, 30),
  ];
}

function shared(one, other) {
  const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
  const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
  return across > 0 && down > 0 ? across * down : 0;
}

// Where a message is drawn: on its way or beside it, near `wanted` (0 to 1), on no node, and on no other message if there is room.
function freePlace(way, wanted, size, nodes, taken, width) {
  let [best, least] = [null, Infinity];
  for (let step = 4; step <= 44; step += 1) {
    const t = step / 48;
    const [on, ahead] = [way.at(t), way.at(t + 0.01)];
    const turn = Math.atan2(ahead.y - on.y, ahead.x - on.x);
    for (const beside of [0, -12, 12, -24, 24, -36, 36, -48, 48]) {
      const at = { x: on.x - beside * Math.sin(turn), y: on.y + beside * Math.cos(turn) };
      if (at.x < size.width / 2 || at.x > width - size.width / 2) continue;
      let cost = 60 * Math.abs(t - wanted) + Math.abs(beside);
      if (cost >= least) continue;
      const box = boxAround(at.x, at.y, size.width, size.height);
      for (const each of nodes) cost += 100 * shared(box, each);
      for (const each of taken) cost += shared(box, each);
      if (cost < least) [best, least] = [{ at, box, angle: (turn * 180) / Math.PI }, cost];
    }
  }
  return best;
}

function record(entry, offset, at, size, node) {
  const durable = offset < node.synced;
  const group = make("g", { class: `record${durable ? "" : " volatile"}` });
  const box = { x: at.x, y: at.y, width: size - 2, height: 22, rx: 3, class: epochClass(entry.epoch) };
  group.append(make("rect", box));
  const text = mark(entry) || entry.text.slice(0, size > 30 ? 4 : 2);
  group.append(words(text, { x: at.x + size / 2 - 1, y: at.y + 11 }));
  const label = `offset ${offset}, epoch ${entry.epoch}: ${told(entry)}, ${durable ? "durable" : "not durable"}`;
  const title = make("title", {});
  title.textContent = label;
  group.append(title);
  return group;
}

function mark(entry) {
  if (entry.voters) return "☰";
  return entry.text === "" ? "★" : entry.text.startsWith("kraft.version") ? "v1" : "";
}
const told = (entry) => (entry.voters ? `voters ${entry.voters.join(", ")}` : entry.text || "LeaderChange");

function drawLog(node, place, narrow) {
  const size = narrow ? 22 : 36;
  const shown = node.records.slice(node.logStart).slice(node.logStart ? -5 : -6);
  const first = node.records.length - shown.length;
  const boxes = shown.length + (node.logStart ? 1 : 0);
  let left = place.x - (boxes * size) / 2;
  const top = place.y + 70;
  const group = make("g", {});
  if (node.logStart) {
    group.append(snapshotBox(node, { x: left, y: top }, size));
    left += size;
  }
  shown.forEach((entry, index) => {
    const at = { x: left + index * size, y: top };
    group.append(record(entry, first + index, at, size, node));
    if (first + index < node.committed) {
      group.append(make("rect", { class: "committed", x: at.x, y: top + 24, width: size - 2, height: 4 }));
    }
  });
  if (first > node.logStart) group.append(words(`${first - node.logStart} more …`, { x: place.x, y: top + 36, class: "facts" }));
  return group;
}

function snapshotBox(node, at, size) {
  const group = make("g", { class: "record snapshot" });
  const title = make("title", {});
  title.textContent = `a snapshot of all below offset ${node.logStart}, in place of the log there`;
  group.append(
    make("rect", { x: at.x, y: at.y, width: size - 2, height: 22, rx: 3 }),
    words(size > 30 ? `▣ ${node.logStart}` : "▣", { x: at.x + size / 2 - 1, y: at.y + 11 }),
    title,
  );
  const bar = make("rect", { class: "committed", x: at.x, y: at.y + 24, width: size - 2, height: 4 });
  return make("g", {}, group, bar);
}

const roleOf = (node) => (node.paused ? `${node.role}, paused` : node.role);

function factsOf(node) {
  const votes = node.voted === null ? "no vote" : `voted ${node.voted}`;
  const voted = node.role !== "down" && !node.voters.includes(node.id) ? "no voter" : votes;
  return `epoch ${node.epoch} · ${voted}`;
}

function drawNode(node, place, selected, narrow, select) {
  const classes = ["node", node.role, node.paused ? "paused" : "", selected ? "selected" : ""];
  const label = `Node ${node.id}: ${roleOf(node)}, ${factsOf(node).replace(" ·", ",")}`;
  const group = make("g", {
    class: classes.join(" "), tabindex: 0, role: "button", "aria-label": label, "aria-pressed": selected,
    "data-node": node.id, "data-role": node.role, "data-epoch": node.epoch, "data-voted": node.voted ?? "",
    "data-log": node.records.map((each) => each.epoch).join(","), "data-durable": node.synced,
    "data-committed": node.committed,
  });
  group.append(
    make("circle", { class: "halo", cx: place.x, cy: place.y, r: 34 }),
    make("circle", { class: "body", cx: place.x, cy: place.y, r: 28 }),
    words(String(node.id), { x: place.x, y: place.y, class: "id" }),
    words(roleOf(node), { x: place.x, y: place.y + 43, class: "role" }),
    words(factsOf(node), { x: place.x, y: place.y + 59, class: "facts" }),
    drawLog(node, place, narrow),
  );
  group.addEventListener("click", () => select(node.id));
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter") select(node.id);
  });
  return group;
}

// A point on the curve from one node to another, which bends to the right of its direction.
function curve(from, to) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const bend = 0.13;
  const middle = { x: (from.x + to.x) / 2 - dy * bend, y: (from.y + to.y) / 2 + dx * bend };
  const at = (t) => ({
    x: (1 - t) ** 2 * from.x + 2 * t * (1 - t) * middle.x + t * t * to.x,
    y: (1 - t) ** 2 * from.y + 2 * t * (1 - t) * middle.y + t * t * to.y,
  });
  return { path: `M${from.x} ${from.y}Q${middle.x} ${middle.y} ${to.x} ${to.y}`, at };
}

function drawMessage(message, at, angle, narrow, actions) {
  const waits = message.ready ? "" : " waits";
  const label = `${message.kind} from ${message.source} to ${message.destination}: ${message.text}. Enter delivers, Delete drops.`;
  const group = make("g", {
    class: `message${message.request ? "" : " answer"}${waits}`, tabindex: 0, role: "button", "aria-label": label,
    "data-message": message.id, transform: `translate(${at.x} ${at.y}) scale(${narrow ? 0.85 : 1})`,
  });
  const title = make("title", {});
  title.textContent = `${message.kind}, ${message.source} → ${message.destination}\n${message.text}\nClick: deliver. Shift-click: drop.`;
  group.append(
    make("path", { class: "pill", d: "M19 0 30 -0M24 -4 30 0 24 4", transform: `rotate(${angle})` }),
    make("rect", { class: "pill", x: -19, y: -10, width: 38, height: 20, rx: 10 }),
    words(SHORT[message.kind] ?? message.kind, {}),
    title,
  );
  group.addEventListener("click", (event) => (event.shiftKey ? actions.drop(message) : actions.deliver(message)));
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter") actions.deliver(message);
    if (event.key === "Delete" || event.key === "Backspace") actions.drop(message);
  });
  group.addEventListener("mouseenter", () => actions.light(message.id, true));
  group.addEventListener("mouseleave", () => actions.light(message.id, false));
  return group;
}

export function draw(svg, view, selected, actions) {
  const narrow = svg.parentElement.clientWidth < 600;
  const [width, height] = narrow ? [400, 680] : [860, 640];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const where = new Map(places(view.nodes.length, width, height).map((place, index) => [view.nodes[index].id, place]));
  const links = make("g", {});
  const cuts = new Set(view.cuts.map((pair) => pair.join()));
  for (const one of view.nodes) {
    for (const other of view.nodes) {
      if (one.id >= other.id) continue;
      const [a, b] = [where.get(one.id), where.get(other.id)];
      const cut = cuts.has(`${one.id},${other.id}`);
      links.append(make("path", { class: `link${cut ? " cut" : ""}`, d: `M${a.x} ${a.y}L${b.x} ${b.y}` }));
    }
  }
  const flows = new Map();
  for (const message of view.messages) {
    const key = `${message.source} ${message.destination}`;
    flows.set(key, [...(flows.get(key) ?? []), message]);
  }
  const messages = make("g", {});
  const covered = view.nodes.flatMap((node) => boxesOf(node, where.get(node.id), narrow));
  const taken = [];
  const size = narrow ? { width: 34, height: 18 } : { width: 40, height: 22 };
  for (const flow of flows.values()) {
    const [from, to] = [where.get(flow[0].source), where.get(flow[0].destination)];
    const way = curve(from, to);
    links.append(make("path", { class: "way", d: way.path }));
    flow.forEach((message, index) => {
      const wanted = 0.68 - (index * 0.36) / Math.max(flow.length - 1, 2);
      const { at, box, angle } = freePlace(way, wanted, size, covered, taken, width);
      taken.push(box);
      messages.append(drawMessage(message, at, angle, narrow, actions));
    });
  }
  const nodes = make("g", {});
  for (const node of view.nodes) {
    nodes.append(drawNode(node, where.get(node.id), node.id === selected, narrow, actions.select));
  }
  svg.replaceChildren(links, nodes, messages);
}
