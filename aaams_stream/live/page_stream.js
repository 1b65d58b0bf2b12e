/* ---- the stream: one socket, heartbeats, messages taken apart ---- */

const byId = (name) => document.getElementById(name);
const token = new URLSearchParams(location.search).get("token");
const streamAddress = `ws://${location.host}/stream${token ? `?token=${encodeURIComponent(token)}` : ""}`;

const SILENT = 1500; // ms without a message, of which one comes every half second
const AGAIN = 1000; // ms until the next try to connect

let status = {};
let frame = null; // the last one: sizes, tables, runs of segments
let socket = null;
let heard = performance.now(); // when the last message of the stream came
let wasLost = false;
let clockAhead = null; // seconds by which the server's clock is ahead of ours
let bestRound = Infinity; // seconds of the quickest question, by which that was found
let latency = null; // seconds from a frame's arrival to this screen
let questions = 0;
const waiting = new Map(); // number of a question to what takes its answer
const NO_ANSWER = { error: "The preview does not answer." };

function connect() {
  socket = new WebSocket(streamAddress);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    heard = performance.now();
    bestRound = Infinity;
    measureClock();
    if (byId("low").getAttribute("aria-pressed") === "true") ask({ do: "picture", picture: "low" });
  };
  socket.onmessage = async ({ data }) => {
    if (typeof data === "string") { // which says nothing of whether frames go on
      const answer = JSON.parse(data);
      waiting.get(answer.question)?.(answer);
      waiting.delete(answer.question);
      return;
    }
    const received = (heard = performance.now());
    try {
      await take(data);
    } finally { // now the next one may come
      const took = Math.min(99999, Math.round(performance.now() - received));
      if (socket.readyState === WebSocket.OPEN) socket.send(`shown ${took}`);
    }
  };
  socket.onclose = () => {
    for (const take of waiting.values()) take(NO_ANSWER);
    waiting.clear();
    wasLost = true;
    showState();
    setTimeout(connect, AGAIN);
  };
}

// Sends a command; its answer has an `error` where it was refused.
function ask(command) {
  if (socket.readyState !== WebSocket.OPEN) return Promise.resolve(NO_ANSWER);
  const question = ++questions;
  socket.send(JSON.stringify({ ...command, question }));
  return new Promise((take) => waiting.set(question, take));
}

async function measureClock() {
  const asked = performance.now() / 1000;
  const { now } = await ask({ do: "time" });
  const answered = performance.now() / 1000;
  if (now === undefined || answered - asked > 1.5 * bestRound) return;
  bestRound = Math.min(bestRound, answered - asked);
  clockAhead = now - (asked + answered) / 2;
}

async function take(data) {
  const length = new DataView(data).getUint32(0, true);
  const next = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  if (wasLost) {
    wasLost = false;
    say("Connected again.");
  }
  status = next;
  if (next.packed !== undefined) {
    const [unpacked, bitmap] = await Promise.all([unpack(next, data, 4 + length), decodePicture(next, data, 4 + length)]);
    frame = unpacked;
    if (next.live) noteTrails(frame);
    regroup();
    fit(frame);
    showPicture(bitmap);
    paint();
    byId("picture").dataset.frame = next.number;
    if (next.live && clockAhead !== null) {
      requestAnimationFrame(() => { latency = clockAhead + performance.now() / 1000 - next.captured; });
    }
  }
  showStatus();
}

const decodePicture = (head, data, start) =>
  createImageBitmap(new Blob([new Uint8Array(data, start + head.packed)], { type: "image/jpeg" }));

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// Takes a message apart, as wire.py describes it.
async function unpack(head, data, start) {
  const { width, height, rows, merges: merged, codes } = head;
  const packed = await inflate(new Uint8Array(data, start, head.packed));
  let at = 0;
  const part = (kind, count) => {
    const array = new kind(packed, at, count);
    at += array.byteLength;
    return array;
  };
  const ids = part(Uint32Array, rows);
  for (let row = 1; row < rows; row++) ids[row] += ids[row - 1];
  const merges = part(Uint16Array, 2 * merged);
  const rgb = part(Uint8Array, 3 * rows);
  const colours = new Uint32Array(rows);
  for (let row = 0; row < rows; row++)
    colours[row] = (0xff000000 | (rgb[3 * row + 2] << 16) | (rgb[3 * row + 1] << 8) | rgb[3 * row]) >>> 0;
  const next = { width, height, ids, merges, colours, time: head.time, number: head.number, live: head.live };
  next.areas = new Uint32Array(rows);
  next.centroids = new Float32Array(2 * rows);
  next.runs = decodeRuns(part(Uint8Array, codes[0]), part(Uint8Array, codes[1]), width, height);
  measure(next);
  next.followed = head.followed;
  next.objects = codes.length > 2
    ? decodeRuns(part(Uint8Array, codes[2]), part(Uint8Array, codes[3]), width, height) : null;
  return next;
}

// Fills in areas and centroids.
function measure({ runs: { height, first, begin, end, label }, areas, centroids }) {
  for (let y = 0; y < height; y++) {
    for (let run = first[y]; run < first[y + 1]; run++) {
      const row = label[run], length = end[run] - begin[run];
      areas[row] += length;
      centroids[2 * row] += ((begin[run] + end[run] - 1) / 2) * length;
      centroids[2 * row + 1] += y * length;
    }
  }
  for (let row = 0; row < areas.length; row++) {
    centroids[2 * row] /= areas[row];
    centroids[2 * row + 1] /= areas[row];
  }
}

const DROP = 7, NEW = 8, FAR = 9, WHOLE = 10; // codes

// A label map as runs, line by line: those of line y are first[y] to first[y + 1], each with its
// first pixel, the one behind its last, and its label.
function decodeRuns(codes, values, width, height) {
  let count = 0;
  for (let c = 0; c < codes.length; c++) count += codes[c] !== DROP && codes[c] !== WHOLE;
  const first = new Uint32Array(height + 1), label = new Uint32Array(count);
  const begin = new Uint32Array(count), end = new Uint32Array(count);
  let above = 0, n = 0, v = 0, y = 0;
  const number = () => {
    let found = 0, shift = 0, byte;
    do {
      byte = values[v++];
      found |= (byte & 127) << shift;
      shift += 7;
    } while (byte > 127);
    return found;
  };
  for (let c = 0; c < codes.length; c++) {
    const code = codes[c];
    if (code < DROP) {
      begin[n] = begin[above] + code - 3;
      label[n++] = label[above++];
    } else if (code === DROP) {
      above++;
    } else if (code === NEW) {
      begin[n] = (n > first[y] ? begin[n - 1] : 0) + number();
      label[n++] = number();
    } else if (code === FAR) {
      const moved = number();
      begin[n] = begin[above] + (moved & 1 ? -((moved + 1) >> 1) : moved >> 1);
      label[n++] = label[above++];
    } else {
      for (let run = first[y]; run + 1 < n; run++) end[run] = begin[run + 1];
      end[n - 1] = width;
      above = first[y];
      first[++y] = n;
    }
  }
  return { width, height, first, begin, end, label };
}

function labelAt({ first, end, label }, x, y) {
  let run = first[y];
  while (end[run] <= x) run++;
  return label[run];
}
