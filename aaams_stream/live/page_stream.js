/* ---- the stream: one socket, heartbeats, messages taken apart ---- */

const byId = (name) => document.getElementById(name);
const token = new URLSearchParams(location.search).get("token");
const streamAddress = `ws://${location.host}/stream${token ? `?token=${encodeURIComponent(token)}` : ""}`;

const SILENT = 1500; // ms without a message, of which one comes every half second
const AGAIN = 1000; // ms until the next try to connect

let status = {};
let frame = null; // the last one: sizes, tables, the segment of each pixel
let socket = null;
let heard = performance.now(); // when the last message came
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
    heard = performance.now();
    if (typeof data === "string") {
      const answer = JSON.parse(data);
      waiting.get(answer.question)?.(answer);
      waiting.delete(answer.question);
      return;
    }
    socket.send("got");
    try {
      await take(data);
    } finally {
      if (socket.readyState === WebSocket.OPEN) socket.send("shown"); // now the next one may come
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
    for (const pen of [videoPen, plainPen]) pen.drawImage(bitmap, 0, 0, frame.width, frame.height);
    bitmap.close();
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
  next.labels = decodeLabels(part(Uint8Array, codes[0]), part(Uint8Array, codes[1]), width, height, next);
  for (let row = 0; row < rows; row++) {
    next.centroids[2 * row] /= next.areas[row];
    next.centroids[2 * row + 1] /= next.areas[row];
  }
  next.followed = head.followed;
  next.objects = codes.length > 2
    ? decodeLabels(part(Uint8Array, codes[2]), part(Uint8Array, codes[3]), width, height) : null;
  return next;
}

// Fills a label map line by line; with tables, their areas and sums of places, too.
function decodeLabels(codes, values, width, height, tables = null) {
  const labels = new Uint32Array(width * height);
  let above = [], line = []; // first pixel and label of each run, one after the other
  let i = 0, v = 0, y = 0;
  const number = () => {
    let found = 0, shift = 0, byte;
    do {
      byte = values[v++];
      found |= (byte & 127) << shift;
      shift += 7;
    } while (byte > 127);
    return found;
  };
  for (const code of codes) {
    if (code <= 6) {
      line.push(above[i] + code - 3, above[i + 1]);
      i += 2;
    } else if (code === 7) {
      i += 2;
    } else if (code === 8) {
      const begin = (line.length ? line[line.length - 2] : 0) + number();
      line.push(begin, number());
    } else if (code === 9) {
      const moved = number();
      line.push(above[i] + (moved & 1 ? -((moved + 1) >> 1) : moved >> 1), above[i + 1]);
      i += 2;
    } else {
      for (let run = 0; run < line.length; run += 2) {
        const begin = line[run], label = line[run + 1], end = run + 2 < line.length ? line[run + 2] : width;
        labels.fill(label, y * width + begin, y * width + end);
        if (tables) {
          tables.areas[label] += end - begin;
          tables.centroids[2 * label] += ((begin + end - 1) / 2) * (end - begin);
          tables.centroids[2 * label + 1] += y * (end - begin);
        }
      }
      [above, line, i] = [line, [], 0];
      y++;
    }
  }
  return labels;
}
