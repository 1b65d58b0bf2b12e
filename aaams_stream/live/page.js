const byId = (name) => document.getElementById(name);
const token = new URLSearchParams(location.search).get("token");
const address = (path, values = {}) => {
  const query = new URLSearchParams(token ? { ...values, token } : values).toString();
  return query ? `${path}?${query}` : path;
};

// Detail runs from 2 groups a frame to 400, evenly in their logarithm, and then to all segments.
const FEWEST = 2, MOST = 400, TRAIL = 45;
const toGroups = (value) => value >= 100 ? Infinity : Math.round(FEWEST * (MOST / FEWEST) ** (value / 99));

const video = byId("video"), overlay = byId("overlay"), tracks = byId("tracks");
const videoPen = video.getContext("2d", { alpha: false });
const overlayPen = overlay.getContext("2d");
const tracksPen = tracks.getContext("2d");

let status = {};
let frame = null; // the last one: sizes, tables, the segment of each pixel
let selected = null; // an id
let members = new Set(); // the ids of the group that was selected
let wanted = toGroups(47); // groups to show: about the things a person would name
let names = new Map(); // id to the name of its group
let trails = new Map(); // id to its last centroids
let layer = null; // the overlay's pixels, kept from frame to frame

const view = () => document.querySelector("input[name=view]:checked").value;

/* ---- the stream ---- */

let socket = null;
const open = new Map(); // number of a question to what takes its answer
let questions = 0;

function connect() {
  socket = new WebSocket(address(`ws://${location.host}/stream`));
  socket.binaryType = "arraybuffer";
  socket.onmessage = async ({ data }) => {
    if (typeof data === "string") {
      const answer = JSON.parse(data);
      open.get(answer.question)?.(answer);
      open.delete(answer.question);
      return;
    }
    try {
      await take(data);
    } finally {
      if (socket.readyState === WebSocket.OPEN) socket.send("shown"); // now the next one may come
    }
  };
  socket.onclose = () => {
    for (const take of open.values()) take({ error: "The preview does not answer." });
    open.clear();
    showPhase("disconnected", true);
    setTimeout(connect, 1000);
  };
}

// Sends a command; its answer has an `error` where it was refused.
function ask(command) {
  if (socket.readyState !== WebSocket.OPEN) return Promise.resolve({ error: "The preview does not answer." });
  const question = ++questions;
  socket.send(JSON.stringify({ ...command, question }));
  return new Promise((take) => open.set(question, take));
}

async function take(data) {
  const length = new DataView(data).getUint32(0, true);
  status = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  if (status.number !== undefined) {
    const next = unpack(status, data, 4 + length);
    const bitmap = await createImageBitmap(new Blob([next.jpeg], { type: "image/jpeg" }));
    frame = next;
    follow(next);
    regroup();
    fit(next);
    videoPen.drawImage(bitmap, 0, 0);
    bitmap.close();
    paint();
    byId("picture").dataset.frame = status.number;
  }
  showStatus();
}

function unpack(head, data, start) {
  const { width, height, segments, merges: merged, runs } = head;
  let at = start;
  const part = (kind, count) => {
    const array = new kind(data, at, count);
    at += array.byteLength;
    return array;
  };
  const ids = part(Uint32Array, segments);
  const colours = part(Uint32Array, segments);
  const centroids = part(Float32Array, 2 * segments);
  const merges = part(Uint32Array, 2 * merged);
  const rows = part(Uint32Array, runs);
  const lengths = part(Uint16Array, runs);
  const labels = new Uint32Array(width * height);
  const areas = new Uint32Array(segments);
  for (let run = 0, p = 0; run < runs; run++) {
    const end = p + lengths[run];
    labels.fill(rows[run], p, end);
    areas[rows[run]] += lengths[run];
    p = end;
  }
  const jpeg = new Uint8Array(data, at);
  return { width, height, ids, colours, centroids, merges, labels, areas, time: head.time, jpeg };
}

function follow({ ids, centroids, time }) {
  const now = new Map();
  for (let row = 0; row < ids.length; row++) {
    const trail = trails.get(ids[row]) ?? [];
    trail.push([centroids[2 * row], centroids[2 * row + 1]]);
    if (trail.length > TRAIL) trail.shift();
    now.set(ids[row], trail);
  }
  trails = now;
}

/* ---- groups: the tree cut at the detail wanted ---- */

// Fills in, for each segment, the row that stands for its group, and the name of the group.
function regroup() {
  const { ids, merges, areas } = frame;
  const group = Uint32Array.from(ids, (_, row) => row);
  const count = Math.max(0, Math.min(merges.length / 2, ids.length - wanted));
  for (let i = 0; i < count; i++) group[merges[2 * i + 1]] = merges[2 * i];
  for (let row = 0; row < ids.length; row++) {
    let root = row;
    while (group[root] !== root) root = group[root];
    group[row] = root;
  }
  frame.group = group;
  frame.name = nameGroups(ids, group, areas);
  keepSelection();
}

// A name stays with the group that has most of what bore it; a new group has its lowest free id.
function nameGroups(ids, group, areas) {
  const parts = new Map(); // "name root" to the area they share
  for (let row = 0; row < ids.length; row++) {
    const name = names.get(ids[row]);
    if (name === undefined) continue;
    const key = `${name} ${group[row]}`;
    parts.set(key, (parts.get(key) ?? 0) + areas[row]);
  }
  const found = new Map(), taken = new Set(), settled = new Set();
  for (const [key] of [...parts].sort((a, b) => b[1] - a[1])) {
    const [name, root] = key.split(" ").map(Number);
    if (settled.has(name)) continue;
    settled.add(name); // its largest part decides, also where another name was larger there
    if (!found.has(root)) {
      found.set(root, name);
      taken.add(name);
    }
  }
  for (let row = 0; row < ids.length; row++) {
    if (found.has(group[row]) || taken.has(ids[row])) continue;
    found.set(group[row], ids[row]);
    taken.add(ids[row]);
  }
  names = new Map();
  const named = Uint32Array.from(ids, (id, row) => found.get(group[row]) ?? id);
  ids.forEach((id, row) => names.set(id, named[row]));
  return named;
}

// What was selected goes on as the group that has most of it.
function keepSelection() {
  frame.chosen = -1;
  if (selected === null) return;
  const { ids, group, areas } = frame;
  const shares = new Map();
  for (let row = 0; row < ids.length; row++) {
    if (members.has(ids[row])) shares.set(group[row], (shares.get(group[row]) ?? 0) + areas[row]);
  }
  if (!shares.size) return;
  frame.chosen = [...shares].reduce((best, next) => (next[1] > best[1] ? next : best))[0];
  const rows = [...ids.keys()].filter((row) => group[row] === frame.chosen);
  members = new Set(rows.map((row) => ids[row]));
  if (!members.has(selected)) selected = ids[rows.reduce((best, row) => (areas[row] > areas[best] ? row : best))];
}

function fit({ width, height }) {
  if (video.width === width && video.height === height) return;
  for (const canvas of [video, overlay]) {
    canvas.width = width;
    canvas.height = height;
  }
  layer = overlayPen.createImageData(width, height);
  const picture = byId("picture");
  picture.style.aspectRatio = `${width} / ${height}`;
  picture.style.maxWidth = `calc((100vh - 150px) * ${width / height})`;
}

/* ---- painting ---- */

const LINE = 0xff0ad6ff; // bytes R, G, B, A as a little-endian number: amber
const WHITE = 0xffffffff;

// The same colour, a third of the way to white: lines between the segments of a group.
function lighter(colour) {
  const part = (k) => Math.round(170 / 2 + ((colour >>> (8 * k)) & 255) * 2 / 3) << (8 * k);
  return (0xff000000 | part(2) | part(1) | part(0)) >>> 0;
}

// The colours of the volume's films: see id_colours in render.py.
function idColour(id) {
  let mixed = Math.imul(id, 2654435761) >>> 0;
  mixed = (mixed ^ (mixed >>> 15)) >>> 0;
  return ((mixed & 0xffffff) | 0xff000000) >>> 0;
}

// Clear hues for groups: see group_colours in views.py.
function groupColour(id) {
  let mixed = Math.imul(id, 2654435761) >>> 0;
  mixed = (mixed ^ (mixed >>> 15)) >>> 0;
  const hue = 2 * (((mixed & 0xffff) * 180) >>> 16);
  const saturation = (150 + ((mixed >>> 16) & 1) * 90) / 255, value = 190 + ((mixed >>> 17) & 1) * 65;
  const channel = (n) => {
    const k = (n + hue / 60) % 6;
    return Math.round(value - value * saturation * Math.max(0, Math.min(k, 4 - k, 1)));
  };
  return (0xff000000 | (channel(1) << 16) | (channel(3) << 8) | channel(5)) >>> 0;
}

// The mean colour of each group, for all of its segments.
function meanColours({ ids, group, areas, colours }) {
  const sums = new Float64Array(4 * ids.length);
  for (let row = 0; row < ids.length; row++) {
    const at = 4 * group[row];
    for (let k = 0; k < 3; k++) sums[at + k] += areas[row] * ((colours[row] >>> (8 * k)) & 255);
    sums[at + 3] += areas[row];
  }
  const mean = (at, k) => Math.round(sums[at + k] / sums[at + 3]) << (8 * k);
  return Uint32Array.from(group, (root) => (0xff000000 | mean(4 * root, 2) | mean(4 * root, 1) | mean(4 * root, 0)) >>> 0);
}

function paint() {
  if (!frame) return;
  const { width, height, labels, group, name, chosen } = frame;
  const kind = view();
  const pixels = new Uint32Array(layer.data.buffer);
  const filling = kind === "colours" ? meanColours(frame)
    : kind === "ids" ? Uint32Array.from(name, idColour)
    : kind === "objects" ? Uint32Array.from(name, groupColour) : null;
  const faint = filling && kind === "objects" ? Uint32Array.from(filling, lighter) : null;
  if (filling) for (let p = 0; p < labels.length; p++) pixels[p] = filling[labels[p]];
  else pixels.fill(0);
  const line = kind === "boundaries" ? LINE : kind === "ids" || kind === "objects" ? WHITE : 0;
  for (let y = 0, p = 0; y < height; y++) {
    for (let x = 0; x < width; x++, p++) {
      const segment = labels[p];
      const beside = x + 1 < width ? labels[p + 1] : segment;
      const under = y + 1 < height ? labels[p + width] : segment;
      if (segment === beside && segment === under) continue;
      const own = group[segment], right = group[beside], below = group[under];
      if (own === right && own === below) {
        if (faint) pixels[p] = faint[segment];
        continue;
      }
      if (line) pixels[p] = line;
      if (chosen >= 0 && (own === chosen || right === chosen || below === chosen)) {
        pixels[p] = WHITE;
        if (x) pixels[p - 1] = WHITE;
        if (y) pixels[p - width] = WHITE;
      }
    }
  }
  overlayPen.putImageData(layer, 0, 0);
  overlay.style.opacity = tracks.style.opacity = byId("opacity").value / 100;
  paintTracks(kind === "motion");
}

function paintTracks(wanted) {
  const scale = Math.min(2, window.devicePixelRatio || 1);
  const width = Math.round(tracks.clientWidth * scale), height = Math.round(tracks.clientHeight * scale);
  if (tracks.width !== width || tracks.height !== height) {
    tracks.width = width;
    tracks.height = height;
  } else {
    tracksPen.clearRect(0, 0, width, height);
  }
  const zoom = width / frame.width;
  for (const [id, trail] of trails) {
    const [[x0, y0], [x1, y1]] = [trail[0], trail.at(-1)];
    const moved = Math.hypot(x1 - x0, y1 - y0);
    if (id !== selected && (!wanted || moved < 2)) continue;
    const colour = `#${(idColour(id) & 0xffffff).toString(16).padStart(6, "0").replace(/(..)(..)(..)/, "$3$2$1")}`;
    tracksPen.lineJoin = tracksPen.lineCap = "round";
    for (const [style, thick] of [["#000a", 4.5], [colour, 2.5]]) {
      tracksPen.strokeStyle = style;
      tracksPen.lineWidth = thick * scale;
      tracksPen.beginPath();
      for (const [x, y] of trail) tracksPen.lineTo((x + 0.5) * zoom, (y + 0.5) * zoom);
      tracksPen.stroke();
    }
    tracksPen.fillStyle = "#fff";
    tracksPen.beginPath();
    tracksPen.arc((x1 + 0.5) * zoom, (y1 + 0.5) * zoom, 3 * scale, 0, 2 * Math.PI);
    tracksPen.fill();
  }
}

/* ---- figures and controls ---- */

function showPhase(text, bad = false) {
  byId("phase").textContent = text;
  byId("phase").classList.toggle("bad", bad);
}

function showStatus() {
  byId("source").textContent = status.source;
  const { phase, paused } = status;
  showPhase(paused && phase === "running" ? "paused" : phase, phase === "failed");
  byId("curtain").hidden = frame !== null && phase !== "failed";
  byId("notice").textContent = phase === "failed" ? status.message
    : phase === "starting" ? "Getting ready; the first time this compiles for about a minute …" : "Waiting for a frame …";
  byId("fps").textContent = status.fps.toFixed(1);
  byId("latency").textContent = `${Math.round(1000 * (status.glass || status.latency))} ms`;
  showDetail();
  byId("warm").textContent = `${Math.round(100 * status.warm)} %`;
  byId("dropped").textContent = status.dropped;
  byId("viewers").textContent = status.viewers;
  byId("quality").textContent = status.quality === "full quality" ? "" : `Keeping pace: ${status.quality}`;
  byId("pause").textContent = paused ? "Resume" : "Pause";
  byId("pause").setAttribute("aria-pressed", paused);
  byId("record").textContent = status.recording ? `Stop (${status.recorded})` : "Record";
  byId("record").setAttribute("aria-pressed", status.recording !== null);
  if (status.trouble) say(status.trouble);
}

function showDetail() {
  byId("detail-value").textContent = wanted === Infinity ? "all" : wanted;
  if (!frame) return;
  const groups = new Set(frame.group).size, all = frame.ids.length;
  byId("segments").textContent = groups < all ? `${groups} of ${all}` : all;
}

const OPACITY = { ids: 55, objects: 55 }; // of views that would hide the picture

const say = (text) => { byId("message").textContent = text; };

async function order(command) {
  const answer = await ask(command);
  if (answer.error) say(answer.error);
  else if (answer.saved) say(`Saved ${answer.saved}`);
  else if (answer.recording) say(`Recording ${answer.recording}`);
}

byId("pause").onclick = () => order({ do: status.paused ? "resume" : "pause" });
byId("step").onclick = () => order({ do: "step" });
byId("snapshot").onclick = () => order({
  do: "snapshot", view: view(), opacity: byId("opacity").value / 100, groups: wanted === Infinity ? null : wanted,
});
byId("record").onclick = () => order({ do: status.recording ? "stop" : "record" });
for (const input of document.querySelectorAll("input[name=view]")) input.onchange = () => {
  setOpacity(OPACITY[input.value] ?? 100);
  paint();
};
byId("opacity").oninput = () => setOpacity(byId("opacity").value);
byId("detail").oninput = () => { // the tree came with the frame: it is cut here, also in a pause
  wanted = toGroups(byId("detail").value);
  names = new Map(); // other groups, other names
  if (frame) regroup();
  showDetail();
  paint();
};

function setOpacity(value) {
  byId("opacity").value = value;
  byId("opacity-value").textContent = `${value} %`;
  overlay.style.opacity = tracks.style.opacity = value / 100;
}

document.onkeydown = (event) => {
  if (event.target.matches("input, button") || event.ctrlKey || event.metaKey || event.altKey) return;
  const button = { " ": "pause", s: "step", p: "snapshot", r: "record" }[event.key];
  if (button) {
    event.preventDefault();
    byId(button).click();
  }
};

/* ---- one segment ---- */

byId("picture").onclick = (event) => {
  if (!frame) return;
  const box = video.getBoundingClientRect();
  const x = Math.floor(((event.clientX - box.left) / box.width) * frame.width);
  const y = Math.floor(((event.clientY - box.top) / box.height) * frame.height);
  const inside = x >= 0 && y >= 0 && x < frame.width && y < frame.height;
  select(inside ? frame.labels[y * frame.width + x] : null);
};
byId("forget").onclick = () => select(null);

function select(row) {
  selected = row === null ? null : frame.ids[row];
  members = new Set(frame.ids.filter((_, other) => row !== null && frame.group[other] === frame.group[row]));
  keepSelection();
  byId("known").hidden = true;
  byId("hint").hidden = row !== null;
  paint();
  if (row !== null) inquire(selected);
}

async function inquire(id) {
  const known = await ask({ do: "about", id });
  if (!known.error && id === selected) showSegment(known);
}

setInterval(() => { if (selected !== null && !status.paused) inquire(selected); }, 500);

const COMPASS = ["→", "↘", "↓", "↙", "←", "↖", "↑", "↗"];

function showSegment(known) {
  const [dx, dy] = known.motion, speed = Math.hypot(dx, dy);
  const way = COMPASS[(Math.round(Math.atan2(dy, dx) / (Math.PI / 4)) + 8) % 8];
  const [l, a, b] = known.lab;
  byId("known").hidden = false;
  byId("swatch").style.background = `lab(${l}% ${a} ${b})`;
  byId("about-id").textContent = known.id + (known.alive ? "" : " (gone)");
  const whole = frame.group.reduce((sum, root, row) => sum + (root === frame.chosen ? frame.areas[row] : 0), 0);
  const share = (100 * whole) / frame.labels.length;
  byId("about-group").textContent = frame.chosen < 0 ? "–" : `${members.size} segments, ${share.toFixed(1)} %`;
  byId("about-age").textContent = `${known.age} frames`;
  byId("about-area").textContent = `${known.area} px (${(100 * known.share).toFixed(1)} %)`;
  byId("about-colour").textContent = known.lab.map(Math.round).join(", ");
  byId("about-motion").textContent = speed < 0.05 ? "still" : `${way} ${speed.toFixed(1)} px`;
  byId("events").replaceChildren(...known.events.slice(-5).map(({ time, what }) => {
    const item = document.createElement("li");
    item.textContent = `${time.toFixed(1)} s: ${what}`;
    return item;
  }));
  drawHistory(known.history);
}

function drawHistory(history) {
  const canvas = byId("history"), pen = canvas.getContext("2d");
  const scale = window.devicePixelRatio || 1;
  const width = (canvas.width = canvas.clientWidth * scale), height = (canvas.height = canvas.clientHeight * scale);
  const most = Math.max(...history.map(([, , , area]) => area));
  const [first, last] = [history[0][0], history.at(-1)[0]];
  const colour = getComputedStyle(document.body).getPropertyValue("--accent");
  pen.beginPath();
  history.forEach(([time, , , area]) => {
    const x = last > first ? ((time - first) / (last - first)) * width : width;
    pen.lineTo(x, height - (area / most) * (height - 4 * scale));
  });
  pen.strokeStyle = colour;
  pen.lineWidth = 2 * scale;
  pen.stroke();
  pen.lineTo(width, height);
  pen.lineTo(0, height);
  pen.globalAlpha = 0.15;
  pen.fillStyle = colour;
  pen.fill();
}

window.onresize = () => paint();
connect();
