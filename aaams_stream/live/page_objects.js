/* ---- what is followed: clicks, the list, words for those who hear the page ---- */

// R, G, B as board.py has them.
const OBJECT_COLOURS = [
  [255, 196, 0], [0, 194, 255], [255, 92, 168], [94, 230, 94],
  [186, 130, 255], [255, 138, 64], [0, 230, 195], [240, 240, 120],
].map(([r, g, b]) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0);
const objectColour = (number) => OBJECT_COLOURS[(number - 1) % OBJECT_COLOURS.length];

let active = null; // the number of the object that shift- and alt-clicks change
let listed = ""; // what the list shows
const states = new Map(); // number to what was said of it last

// Does what a click at x, y of the frame stands for.
async function clickAt([x, y], { add = false, take = false } = {}) {
  const row = labelAt(frame.runs, x, y);
  if (row === frame.ids.length) { // outside the region of interest
    select(null);
    say("Nothing is segmented there.");
    return;
  }
  const one = frame.objects ? labelAt(frame.objects, x, y) : 0;
  const number = one ? frame.followed[one - 1][0] : null;
  select(row);
  if (!status.owner || status.live === false) return;
  const ids = [...frame.ids].filter((_, other) => frame.group[other] === frame.group[row]);
  let answer;
  if ((add || take) && active !== null) {
    // of what is marked already, only the segment itself is taken away
    answer = await ask({ do: "correct", number: active, ids: take ? [frame.ids[row]] : ids, inside: !take });
  } else if (take || add) {
    answer = { error: "Follow something first: click it." };
  } else if (number !== null) {
    active = number;
    listed = "";
    showObjects();
    return;
  } else {
    answer = await ask({ do: "follow", ids });
    if (answer.object) active = answer.object;
  }
  say(answer.error ?? "");
}

const WORDS = { seen: "seen", lost: "lost", back: "seen" };

function showObjects() {
  const objects = status.objects ?? [];
  if (!objects.some(({ number }) => number === active)) active = objects.at(-1)?.number ?? null;
  for (const { number, state } of objects) {
    const before = states.get(number);
    if (state === "lost" && before !== "lost") tell(`Object ${number} is lost.`);
    else if (state !== "lost" && before === "lost") tell(`Object ${number} is back.`);
    else if (before === undefined) tell(`Following object ${number}.`);
    states.set(number, state);
  }
  for (const number of states.keys()) // one that comes later may have its number
    if (!objects.some((one) => one.number === number)) states.delete(number);
  const shown = JSON.stringify([active, status.owner, objects.map(({ number, state }) => [number, WORDS[state]])]);
  if (shown === listed) return; // a list that is built anew would lose the focus
  listed = shown;
  byId("objects").replaceChildren(...objects.map(objectItem));
}

function objectItem({ number, state }) {
  const item = document.createElement("li"), pick = document.createElement("button");
  pick.type = "button";
  pick.className = "pick";
  pick.setAttribute("aria-pressed", number === active);
  const dot = document.createElement("span"), what = document.createElement("span");
  dot.className = "dot";
  dot.style.background = cssColour(objectColour(number));
  what.className = "what";
  what.textContent = WORDS[state];
  pick.append(dot, `Object ${number}`, what);
  pick.onclick = () => {
    active = number;
    showObjects();
  };
  item.append(pick);
  if (status.owner) {
    const away = document.createElement("button");
    away.type = "button";
    away.className = "away";
    away.textContent = "×";
    away.setAttribute("aria-label", `Follow object ${number} no longer`);
    away.onclick = () => order({ do: "let go", number });
    item.append(away);
  }
  return item;
}

const tell = (text) => { byId("said").textContent = text; };
byId("save").onclick = () => order({ do: "save" });

/* ---- the pointer ---- */

let grip = null; // where a drag began

byId("picture").onpointerdown = (event) => {
  byKeys = false;
  grip = { x: event.clientX, y: event.clientY, panX, panY, moved: false };
};
byId("picture").onpointermove = (event) => {
  if (!grip || !(event.buttons & 1)) return;
  const dx = event.clientX - grip.x, dy = event.clientY - grip.y;
  grip.moved ||= Math.hypot(dx, dy) > 5;
  if (grip.moved && zoom > 1) panTo(grip.panX + dx, grip.panY + dy);
};
byId("picture").onclick = (event) => {
  const dragged = grip?.moved && zoom > 1;
  grip = null;
  const place = frame && !dragged ? inFrame(event.clientX, event.clientY) : null;
  if (!place) return;
  cross = place;
  clickAt(place, { add: event.shiftKey, take: event.altKey });
};
byId("picture").addEventListener("wheel", (event) => {
  if (!frame) return;
  event.preventDefault();
  const box = byId("picture").getBoundingClientRect();
  zoomTo(zoom * 1.2 ** -Math.sign(event.deltaY), event.clientX - box.left, event.clientY - box.top);
}, { passive: false });

byId("picture").onkeydown = (event) => {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!frame || event.ctrlKey || event.metaKey) return;
  cross ??= [frame.width >> 1, frame.height >> 1];
  if (way) {
    byKeys = true;
    const step = event.shiftKey ? 2 : Math.max(2, frame.width >> 5);
    cross = [
      Math.min(frame.width - 1, Math.max(0, cross[0] + step * way[0])),
      Math.min(frame.height - 1, Math.max(0, cross[1] + step * way[1])),
    ];
    paintTracks();
  } else if (event.key === "Enter") {
    clickAt(cross, { add: event.shiftKey, take: event.altKey });
  } else {
    return;
  }
  event.preventDefault();
};
byId("picture").onfocus = byId("picture").onblur = () => paintTracks();
