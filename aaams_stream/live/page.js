/* ---- how it is going, in words ---- */

// What is wrong comes first. For each: the badge, and what there is to do.
function findState() {
  if (socket?.readyState !== WebSocket.OPEN && status.phase === undefined)
    return wasLost ? ["lost", "not connected", "The preview is not there. Is it running? Trying again …"]
      : ["connecting", "connecting", ""];
  if (wasLost) return ["lost", "connection lost", "The connection is lost: this is the last picture. Trying again; if the preview was ended, start it again."];
  const quiet = performance.now() - heard;
  if (quiet > SILENT) return ["silent", `no answer for ${Math.round(quiet / 1000)} s`, "The preview does not answer: it is stopped, or very busy. This is the last picture."];
  const { phase, message, silent, waiting_for: from } = status;
  if (phase === "failed") return ["failed", "failed", `It has failed: ${message}. Mend that, then start the preview again.`];
  if (phase === "starting") return message ? ["compiling", "compiling", ""] : ["starting", "getting ready", ""];
  if (status.live === false) return ["past", "looking back", "You look back; press Live to see what is now."];
  if (phase === "ended") return ["ended", "ended", "The source has ended. Look back with the bar below, or start the preview again."];
  if (status.paused) return ["paused", "paused", "Paused. Resume, or step frame by frame."];
  if (from === "source") return ["stalled", `no frames for ${Math.round(silent)} s`, "The source sends no frames: look after the camera or the network. It goes on by itself."];
  if (from === "segmenter") return ["stuck", `stuck for ${Math.round(silent)} s`, "Frames come in, but none is segmented. Start the preview again if this lasts."];
  return ["running", "running", ""];
}

function showState() {
  const [state, badge, note] = findState();
  document.body.dataset.state = state;
  setText("phase", badge);
  setText("state", note); // said aloud when it changes, so it counts no seconds
  byId("curtain").hidden = frame !== null;
  setText("notice", note || (state === "compiling" ? `Getting ready, for about a minute the first time; ${status.message}.`
    : state === "starting" ? "Getting ready …" : state === "connecting" ? "Connecting …" : "Waiting for a frame …"));
  const known = !["connecting", "lost", "silent"].includes(state), going = known && status.phase === "running";
  for (const name of ["pause", "step"]) byId(name).disabled = !going;
  byId("record").disabled = !going && !(known && status.recording);
  byId("snapshot").disabled = !known || frame === null;
  byId("save").disabled = !known || !status.objects?.length;
  if (known && state !== "failed") return;
  for (const name of ["fps", "latency"]) setText(name, "–"); // what was is not what is
}

const setText = (name, text) => { if (byId(name).textContent !== String(text)) byId(name).textContent = text; };
const say = (text) => setText("message", text);

function showStatus() {
  setText("source", status.source);
  document.body.classList.toggle("guest", status.owner === false);
  setText("fps", status.fps.toFixed(1));
  setText("latency", latency === null ? "–" : `${Math.round(1000 * latency)} ms`);
  showState();
  showDetail();
  setText("warm", `${Math.round(100 * status.warm)} %`);
  setText("dropped", status.dropped);
  setText("viewers", status.viewers);
  const reduced = [
    status.quality === "full quality" ? "" : `Segments, to keep pace: ${status.quality}.`,
    status.picture === "full" ? "" : `Picture: ${status.picture}.`,
  ];
  setText("quality", reduced.filter(Boolean).join(" "));
  setText("pause", status.paused ? "Resume" : "Pause");
  byId("pause").setAttribute("aria-pressed", status.paused);
  setText("record", status.recording ? `Stop (${status.recorded})` : "Record");
  byId("record").setAttribute("aria-pressed", status.recording !== null);
  if (status.trouble && status.trouble !== trouble) say(status.trouble);
  trouble = status.trouble;
  showTimeline();
  showObjects();
}

let trouble = "";

function showDetail() {
  setText("detail-value", wanted === Infinity ? "all" : wanted);
  if (!frame) return;
  const groups = new Set(frame.group).size, all = frame.ids.length;
  setText("segments", groups < all ? `${groups} of ${all}` : all);
}

/* ---- looking back ---- */

let looking = null; // number of the frame that is looked at

function showTimeline() {
  const [first, last] = status.past, scrub = byId("scrub");
  scrub.disabled = last <= first;
  scrub.min = first;
  scrub.max = last;
  if (looking === null) scrub.value = last;
  byId("live").disabled = looking === null;
  setText("scrub-value", looking === null ? "live" : `${looking - last} frames`);
  scrub.setAttribute("aria-valuetext", looking === null ? "live" : `${last - looking} frames ago`);
}

byId("scrub").oninput = () => {
  const value = Number(byId("scrub").value);
  lookAt(value >= Number(byId("scrub").max) ? null : value);
};
byId("live").onclick = () => lookAt(null);

function lookAt(number) {
  looking = number;
  ask({ do: "look", number });
  showTimeline();
}

/* ---- the last minute ---- */

const minute = []; // a second each: frames a second, latency, quality

setInterval(() => {
  showState();
  if (status.phase === undefined) return;
  minute.push({ fps: status.fps, latency: latency ?? 0, full: status.quality === "full quality" });
  if (minute.length > 60) minute.shift();
  if (byId("minute-box").open) drawMinute();
}, 1000);
setInterval(showState, 250);
setInterval(measureClock, 5000);
byId("minute-box").ontoggle = () => drawMinute();

function drawMinute() {
  const canvas = byId("minute"), pen = canvas.getContext("2d"), scale = window.devicePixelRatio || 1;
  const width = (canvas.width = canvas.clientWidth * scale), height = (canvas.height = canvas.clientHeight * scale);
  const style = getComputedStyle(document.body);
  const column = width / 60, at = (k) => width - (minute.length - k) * column;
  pen.fillStyle = style.getPropertyValue("--line");
  minute.forEach(({ full }, k) => { if (!full) pen.fillRect(at(k), 0, column + 1, height); });
  for (const [name, colour] of [["fps", "--accent"], ["latency", "--alert"]]) {
    const most = Math.max(1e-9, ...minute.map((second) => second[name]));
    pen.strokeStyle = style.getPropertyValue(colour);
    pen.lineWidth = 2 * scale;
    pen.beginPath();
    const high = (second) => height - 3 - (second[name] / most) * (height - 8 * scale);
    minute.forEach((second, k) => pen.lineTo(at(k), high(second)));
    if (minute.length) pen.lineTo(width, high(minute.at(-1)));
    pen.stroke();
  }
  const range = (name, factor) => {
    const values = minute.map((second) => Math.round(factor * second[name]));
    return `${Math.min(...values)} to ${Math.max(...values)}`;
  };
  setText("minute-text", minute.length === 0 ? "" : `Blue: ${range("fps", 1)} frames/s. Red: ${range("latency", 1000)} ms latency. `
    + `Grey: reduced quality, ${minute.filter(({ full }) => !full).length} s.`);
}

/* ---- controls ---- */

const OPACITY = { ids: 55, objects: 55 }; // of views that would hide the picture

async function order(command) {
  const answer = await ask(command);
  if (answer.error) say(answer.error);
  else if (answer.saved) say(`Saved ${answer.saved}`);
  else if (answer.recording) say(`Recording ${answer.recording}`);
}

byId("pause").onclick = () => order({ do: status.paused ? "resume" : "pause" });
byId("step").onclick = () => order({ do: "step" });
byId("snapshot").onclick = () => status.live === false ? say("Snapshots are of what is now: press Live first.") : order({
  do: "snapshot", view: view(), opacity: byId("opacity").value / 100, groups: wanted === Infinity ? null : wanted,
  number: frame?.number ?? 0,
});
byId("record").onclick = () => order({ do: status.recording ? "stop" : "record" });
byId("share").onclick = async () => {
  const answer = await ask({ do: "share" });
  if (answer.error) return say(answer.error);
  if (!answer.token) return say("Everybody on this machine may look on, and change things too.");
  byId("link").value = `${location.origin}/?token=${answer.token}`;
  byId("link").hidden = false;
  byId("link").select();
  return navigator.clipboard?.writeText(byId("link").value).then(() => say("Copied the link for viewers."), () => null);
};
byId("twin").onclick = () => {
  const twin = byId("pictures").classList.toggle("twin");
  byId("twin").setAttribute("aria-pressed", twin);
  byId("plain-box").hidden = !twin;
  if (twin) {
    resize(plainPen.canvas, video.width, video.height);
    plainPen.drawImage(video, 0, 0);
  }
  panTo(panX, panY);
  paint();
};
byId("low").onclick = () => {
  const low = byId("low").getAttribute("aria-pressed") !== "true";
  byId("low").setAttribute("aria-pressed", low);
  order({ do: "picture", picture: low ? "low" : "auto" });
};
byId("zoom-in").onclick = () => zoomTo(1.5 * zoom);
byId("zoom-out").onclick = () => zoomTo(zoom / 1.5);
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
  setText("opacity-value", `${value} %`);
  overlay.style.opacity = value / 100;
  paintTracks();
}

// A button that was clicked with the mouse gives the keys back; one reached by Tab keeps them.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button");
  if (button && event.detail > 0) button.blur();
});

document.onkeydown = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && event.target.matches("button, summary, input:not([readonly])")) return; // it is theirs
  const button = { " ": "pause", s: "step", p: "snapshot", r: "record", "+": "zoom-in", "-": "zoom-out" }[event.key];
  if (button) {
    event.preventDefault();
    byId(button).click();
  }
};

/* ---- one segment ---- */

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
  const share = (100 * whole) / (frame.width * frame.height);
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
