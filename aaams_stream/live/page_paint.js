/* ---- painting ---- */

const video = byId("video"), overlay = byId("overlay"), marks = byId("marks"), tracks = byId("tracks");
const videoPen = video.getContext("2d", { alpha: false });
const plainPen = byId("plain").getContext("2d", { alpha: false });
const overlayPen = overlay.getContext("2d");
const marksPen = marks.getContext("2d");
const tracksPen = tracks.getContext("2d");

const LINE = 0xff0ad6ff; // bytes R, G, B, A as a little-endian number: amber
const WHITE = 0xffffffff;
const HALO = 0x73000000; // beside a line: it shows on bright walls, too
const TRAIL = 1; // seconds
const LEAST_MOTION = 3; // pixels

let layer = null, marksLayer = null; // pixels, kept from frame to frame
let trails = new Map(); // id to its last centroids: time, x, y
let cross = null; // x, y of the keyboard's cross in the frame's pixels
let byKeys = false; // whether it was moved last, or the mouse

const view = () => document.querySelector("input[name=view]:checked").value;

function fit({ width, height }) {
  if (video.width === width && video.height === height) return;
  for (const canvas of [video, overlay, marks, byId("plain")]) {
    canvas.width = width;
    canvas.height = height;
  }
  layer = overlayPen.createImageData(width, height);
  marksLayer = marksPen.createImageData(width, height);
  for (const box of [byId("picture"), byId("plain-box")]) {
    box.style.aspectRatio = `${width} / ${height}`;
    box.style.maxWidth = `calc((100vh - 190px) * ${width / height})`;
  }
}

function noteTrails({ ids, centroids, time }) {
  const now = new Map();
  for (let row = 0; row < ids.length; row++) {
    const trail = (trails.get(ids[row]) ?? []).filter(([then]) => then >= time - TRAIL && then < time);
    trail.push([time, centroids[2 * row], centroids[2 * row + 1]]);
    now.set(ids[row], trail);
  }
  trails = now;
}

// The same colour, a third of the way to white: lines between the segments of a group.
function lighter(colour) {
  const part = (k) => Math.round(170 / 2 + ((colour >>> (8 * k)) & 255) * 2 / 3) << (8 * k);
  return (0xff000000 | part(2) | part(1) | part(0)) >>> 0;
}

// The colours of the volume's films: see id_colours in views.py.
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
  const edges = [];
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
      if (line === LINE) edges.push(p);
      if (chosen >= 0 && (own === chosen || right === chosen || below === chosen)) {
        pixels[p] = WHITE;
        if (x) pixels[p - 1] = WHITE;
        if (y) pixels[p - width] = WHITE;
      }
    }
  }
  for (const p of edges) {
    const x = p % width;
    for (let dy = -width; dy <= width; dy += width) {
      for (let dx = -1; dx <= 1; dx++) {
        const q = p + dy + dx;
        if (x + dx >= 0 && x + dx < width && pixels[q] === 0) pixels[q] = HALO;
      }
    }
  }
  overlayPen.putImageData(layer, 0, 0);
  overlay.style.opacity = byId("opacity").value / 100;
  paintObjects();
  paintTracks();
}

// What is followed: a tint and an outline in its colour.
function paintObjects() {
  const { width, height, objects, followed } = frame;
  const pixels = new Uint32Array(marksLayer.data.buffer);
  pixels.fill(0);
  if (objects) {
    const colours = [0, ...followed.map(([number]) => objectColour(number))];
    for (let y = 0, p = 0; y < height; y++) {
      for (let x = 0; x < width; x++, p++) {
        const one = objects[p];
        if (!one) continue;
        let inner = x > 0 && y > 0 && x + 1 < width && y + 1 < height;
        for (let dy = -width; inner && dy <= width; dy += width)
          inner = objects[p + dy - 1] === one && objects[p + dy] === one && objects[p + dy + 1] === one;
        pixels[p] = inner ? (colours[one] & 0xffffff | 0x59000000) >>> 0 : colours[one];
      }
    }
  }
  marksPen.putImageData(marksLayer, 0, 0);
}

// Lines in the pixels of the screen: trails, numbers of objects, the keyboard's cross.
function paintTracks() {
  if (!frame) return;
  const scale = Math.min(2, window.devicePixelRatio || 1);
  const width = Math.round(tracks.clientWidth * scale), height = Math.round(tracks.clientHeight * scale);
  if (tracks.width !== width || tracks.height !== height) [tracks.width, tracks.height] = [width, height];
  else tracksPen.clearRect(0, 0, width, height);
  const place = ([x, y]) => onScreen(x + 0.5, y + 0.5).map((value) => value * scale);
  if (view() === "motion") {
    tracksPen.globalAlpha = byId("opacity").value / 100;
    for (const trail of trails.values()) {
      const [, x0, y0] = trail[0], [, x1, y1] = trail.at(-1);
      if (Math.hypot(x1 - x0, y1 - y0) < LEAST_MOTION) continue;
      drawWay(trail.map(([, x, y]) => place([x, y])), "#fff", scale);
    }
    tracksPen.globalAlpha = 1;
  }
  if (status.live !== false) {
    for (const one of status.objects ?? []) {
      const colour = cssColour(objectColour(one.number));
      if (one.trail.length > 1) drawWay(one.trail.map(place), colour, scale);
      if (one.box) tag(String(one.number), place([one.box[0], one.box[1]]), colour, scale);
    }
  }
  if (cross && byKeys && document.activeElement === byId("picture")) {
    const [x, y] = place(cross);
    drawWay([[x - 12 * scale, y], [x + 12 * scale, y]], "#fff", scale, false);
    drawWay([[x, y - 12 * scale], [x, y + 12 * scale]], "#fff", scale, false);
  }
}

function drawWay(points, colour, scale, dot = true) {
  tracksPen.lineJoin = tracksPen.lineCap = "round";
  for (const [style, thick] of [["#000b", 5], [colour, 2.5]]) {
    tracksPen.strokeStyle = style;
    tracksPen.lineWidth = thick * scale;
    tracksPen.beginPath();
    for (const [x, y] of points) tracksPen.lineTo(x, y);
    tracksPen.stroke();
  }
  if (!dot) return;
  tracksPen.fillStyle = colour;
  tracksPen.beginPath();
  tracksPen.arc(...points.at(-1), 3.5 * scale, 0, 2 * Math.PI);
  tracksPen.fill();
}

function tag(text, [x, y], colour, scale) {
  tracksPen.font = `600 ${13 * scale}px system-ui, sans-serif`;
  const wide = tracksPen.measureText(text).width + 10 * scale, high = 19 * scale;
  const top = Math.max(0, y - high);
  tracksPen.fillStyle = colour;
  tracksPen.fillRect(x, top, wide, high);
  tracksPen.fillStyle = "#000";
  tracksPen.fillText(text, x + 5 * scale, top + 14 * scale);
}

const cssColour = (colour) => `rgb(${colour & 255}, ${(colour >>> 8) & 255}, ${(colour >>> 16) & 255})`;

/* ---- zoom: the layers are moved and enlarged, lines keep their width ---- */

let zoom = 1, panX = 0, panY = 0; // pan in the screen's pixels

function onScreen(x, y) {
  const box = byId("picture");
  return [panX + (x / frame.width) * box.clientWidth * zoom, panY + (y / frame.height) * box.clientHeight * zoom];
}

function inFrame(clientX, clientY) {
  const box = byId("picture").getBoundingClientRect();
  const x = Math.floor(((clientX - box.left - panX) / (box.width * zoom)) * frame.width);
  const y = Math.floor(((clientY - box.top - panY) / (box.height * zoom)) * frame.height);
  return x >= 0 && y >= 0 && x < frame.width && y < frame.height ? [x, y] : null;
}

// Zooms so that a place of the screen keeps what it shows.
function zoomTo(wanted, atX = byId("picture").clientWidth / 2, atY = byId("picture").clientHeight / 2) {
  const next = Math.min(8, Math.max(1, wanted));
  panTo(atX - (atX - panX) * (next / zoom), atY - (atY - panY) * (next / zoom), next);
}

function panTo(x, y, next = zoom) {
  const { clientWidth, clientHeight } = byId("picture");
  zoom = next;
  panX = Math.min(0, Math.max(clientWidth * (1 - zoom), x));
  panY = Math.min(0, Math.max(clientHeight * (1 - zoom), y));
  byId("layers").style.transform = `translate(${panX}px, ${panY}px) scale(${zoom})`;
  byId("layers").dataset.zoom = zoom;
  paintTracks();
}
