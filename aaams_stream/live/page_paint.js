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
  if (overlay.width === width && overlay.height === height) return;
  for (const canvas of [overlay, marks]) resize(canvas, width, height);
  overlayEmpty = marksEmpty = true;
  layer = overlayPen.createImageData(width, height);
  marksLayer = marksPen.createImageData(width, height);
  for (const box of [byId("picture"), byId("plain-box")]) {
    box.style.aspectRatio = `${width} / ${height}`;
    box.style.maxWidth = `calc((100vh - 190px) * ${width / height})`;
  }
}

function resize(canvas, width, height) {
  if (canvas.width === width && canvas.height === height) return;
  canvas.width = width;
  canvas.height = height;
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

// Software compositors take a millisecond or two for each canvas that has changed: none is touched
// that would show nothing, as before.
function paint() {
  if (!frame) return;
  const { runs, group, name, chosen } = frame;
  const kind = view();
  const filling = kind === "colours" ? meanColours(frame)
    : kind === "ids" ? Uint32Array.from(name, idColour)
    : kind === "objects" ? Uint32Array.from(name, groupColour) : null;
  const line = kind === "boundaries" ? LINE : kind === "ids" || kind === "objects" ? WHITE : 0;
  const pixels = new Uint32Array(layer.data.buffer);
  const empty = !filling && !line && chosen < 0;
  if (filling) fillRuns(pixels, runs, filling);
  else if (!empty || !overlayEmpty) pixels.fill(0);
  if (kind === "objects") {
    const faint = Uint32Array.from(filling, lighter);
    eachEdge(runs, (from, to, segment, other) => {
      if (group[segment] === group[other]) fillSpan(pixels, from, to, faint[segment]);
    });
  }
  if (line === LINE) {
    const { width } = runs, last = pixels.length - width;
    eachEdge(runs, (from, to, segment, other) => {
      if (group[segment] === group[other]) return;
      const left = from % width ? from - 1 : from, right = to % width ? to + 1 : to;
      fillSpan(pixels, left, right, HALO);
      if (from >= width) fillSpan(pixels, left - width, right - width, HALO);
      if (from < last) fillSpan(pixels, left + width, right + width, HALO);
    });
  }
  if (line) eachEdge(runs, (from, to, segment, other) => {
    if (group[segment] !== group[other]) fillSpan(pixels, from, to, line);
  });
  if (chosen >= 0) outlineChosen(pixels);
  if (!empty || !overlayEmpty) overlayPen.putImageData(layer, 0, 0);
  overlayEmpty = empty;
  overlay.style.opacity = byId("opacity").value / 100;
  paintObjects();
  paintTracks();
}

let overlayEmpty = true, marksEmpty = true, tracksEmpty = true; // as they were last painted

// The picture keeps the size in which it came: what shows it scales it once, to that of the screen.
function showPicture(bitmap) {
  for (const pen of byId("plain-box").hidden ? [videoPen] : [videoPen, plainPen]) {
    resize(pen.canvas, bitmap.width, bitmap.height);
    pen.drawImage(bitmap, 0, 0);
  }
  bitmap.close();
}

function fillSpan(pixels, from, to, colour) {
  if (to - from > 24) pixels.fill(colour, from, to);
  else for (let p = from; p < to; p++) pixels[p] = colour;
}

function fillRuns(pixels, { width, height, first, begin, end, label }, colours) {
  for (let y = 0; y < height; y++) {
    for (let run = first[y]; run < first[y + 1]; run++)
      fillSpan(pixels, y * width + begin[run], y * width + end[run], colours[label[run]]);
  }
}

// Hands on the pixels (from, to) whose segment is not that of their neighbour to the right, or
// below, with both segments.
function eachEdge({ width, height, first, begin, end, label }, act) {
  for (let y = 0; y < height; y++) {
    const at = y * width, behind = first[y + 1];
    let under = behind;
    for (let run = first[y]; run < behind; run++) {
      const segment = label[run];
      if (run + 1 < behind) act(at + end[run] - 1, at + end[run], segment, label[run + 1]);
      if (y + 1 === height) continue;
      for (; ; under++) {
        if (label[under] !== segment) {
          const from = Math.max(begin[run], begin[under]), to = Math.min(end[run], end[under]);
          if (from < to) act(at + from, at + to, segment, label[under]);
        }
        if (end[under] >= end[run]) break;
      }
    }
  }
}

// A line, two pixels wide, around the group that was clicked.
function outlineChosen(pixels) {
  const { runs, group, chosen, width } = frame;
  eachEdge(runs, (from, to, segment, other) => {
    const own = group[segment], beside = group[other];
    if (own === beside || (own !== chosen && beside !== chosen)) return;
    fillSpan(pixels, from % width ? from - 1 : from, to, WHITE);
    if (from >= width) fillSpan(pixels, from - width, to - width, WHITE);
  });
}

// What is followed: a tint and an outline in its colour.
function paintObjects() {
  const { objects, followed } = frame;
  if (!objects && marksEmpty) return;
  const pixels = new Uint32Array(marksLayer.data.buffer);
  pixels.fill(0);
  if (objects) {
    const colours = [0, ...followed.map(([number]) => objectColour(number))];
    const { width, height, first, begin, end, label } = objects;
    for (let y = 0; y < height; y++) {
      for (let run = first[y]; run < first[y + 1]; run++) {
        const one = label[run], at = y * width;
        if (!one) continue;
        fillSpan(pixels, at + begin[run], at + end[run], colours[one]);
        if (y === 0 || y + 1 === height) continue;
        // the tint is where all eight neighbours are in it, too
        for (let over = first[y - 1]; over < first[y]; over++) {
          if (label[over] !== one) continue;
          for (let under = first[y + 1]; under < first[y + 2]; under++) {
            if (label[under] !== one) continue;
            const from = Math.max(begin[run], begin[over], begin[under]) + 1;
            const to = Math.min(end[run], end[over], end[under]) - 1;
            if (from < to) fillSpan(pixels, at + from, at + to, (colours[one] & 0xffffff | 0x59000000) >>> 0);
          }
        }
      }
    }
  }
  marksPen.putImageData(marksLayer, 0, 0);
  marksEmpty = !objects;
}

// Lines in the pixels of the screen: trails, numbers of objects, the keyboard's cross.
function paintTracks() {
  if (!frame) return;
  const scale = Math.min(2, window.devicePixelRatio || 1);
  const width = Math.round(tracks.clientWidth * scale), height = Math.round(tracks.clientHeight * scale);
  const empty = view() !== "motion" && !status.objects?.length && !cross;
  if (empty && tracksEmpty) return;
  tracksEmpty = empty;
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
  for (const name of ["layers", "plain"]) byId(name).style.transform = `translate(${panX}px, ${panY}px) scale(${zoom})`;
  byId("layers").dataset.zoom = zoom;
  paintTracks();
}
