// Detail runs from 2 groups a frame to 400, evenly in their logarithm, and then to all segments.
const FEWEST = 2, MOST = 400;
const toGroups = (value) => value >= 100 ? Infinity : Math.round(FEWEST * (MOST / FEWEST) ** (value / 99));

let wanted = toGroups(47); // groups to show: about the things a person would name
let names = new Map(); // id to the name of its group
let selected = null; // an id
let members = new Set(); // the ids of the group that was selected

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

