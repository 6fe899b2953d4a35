// The crosses that the adjacency tensor yields above a threshold, as fives_tf/crosses.py derives them.

// Returns {orders: [{order, crosses: [{fields, score, path, strengths}]}], complete}. Fields are
// numbers; a path is its start and then its ends, layer by layer. Paths are visited best first, so
// that if there are more than `most` of an order, those left out are the worst.
//
// starts: the edges that count, as `edgesAbove` has them.
function crossesOf(starts, columns, most) {
  const orders = [];
  let complete = true;
  for (let depth = 1; depth <= starts[0].length; depth += 1) {
    const found = new Map();
    const heap = new Heap();
    starts.forEach((edges, start) => {
      if (edges.slice(0, depth).every((list) => list.length))
        pushPath(heap, starts, columns, depth, start, [0]);
    });
    let visits = 0;
    while (heap.size && visits < most) {
      const { start, ranks } = heap.pop();
      visits += 1;
      pushPath(heap, starts, columns, depth, start, [...ranks.slice(0, -1), ranks.at(-1) + 1]);
      if (ranks.length < depth) pushPath(heap, starts, columns, depth, start, [...ranks, 0]);
      else
        keepBest(
          found,
          start,
          ranks.map((rank, layer) => starts[start][layer][rank]),
        );
    }
    complete = complete && !heap.size;
    orders.push({ order: depth + 1, crosses: [...found.values()].sort(byScore) });
  }
  return { orders, complete };
}

// The edges that count, by start and layer, strongest first, with their probabilities: in layer 1 the
// strength, above it the share that it has in its row, of which not all fields may be shown. Without a
// threshold those of the search count.
function edgesAbove(columns, layers, threshold) {
  return columns.map((column, start) =>
    layers.map(({ strength, totals, edges }, layer) => {
      const total = layer ? totals[start] : 1;
      const counts = (value, end) => (threshold === null ? edges[start][end] : value >= threshold);
      return strength[start]
        .map((value, end) => ({ end, strength: value, weight: value / total }))
        .filter(
          ({ end, strength: value }) => value > 0 && counts(value, end) && columns[end] !== column,
        )
        .sort((one, other) => other.weight - one.weight || one.end - other.end);
    }),
  );
}

// Adds the beginning of a path, or its next sibling if its last column is on the path already. It stands
// for its best conceivable end: the strongest edge of each layer to come.
function pushPath(heap, starts, columns, depth, start, ranks) {
  const lists = starts[start];
  const before = ranks.slice(0, -1);
  const taken = before.map((rank, layer) => columns[lists[layer][rank].end]);
  const here = lists[before.length];
  let rank = ranks.at(-1);
  while (rank < here.length && taken.includes(columns[here[rank].end])) rank += 1;
  if (rank === here.length) return;
  const path = [...before, rank];
  let bound = 1;
  for (let layer = 0; layer < depth; layer += 1) bound *= lists[layer][path[layer] ?? 0].weight;
  heap.push({ bound, start, ranks: path });
}

function keepBest(found, start, edges) {
  const path = [start, ...edges.map((edge) => edge.end)];
  const fields = [...path].sort((a, b) => a - b);
  const score = edges.reduce((product, edge) => product * edge.weight, 1);
  const known = found.get(fields.join());
  if (!known || score > known.score)
    found.set(fields.join(), {
      fields,
      score,
      path,
      strengths: edges.map((edge) => edge.strength),
    });
}

function byScore(one, other) {
  // Products that differ by rounding only are equal, and then the order of the fields counts.
  const gap = Number(other.score.toPrecision(12)) - Number(one.score.toPrecision(12));
  if (gap) return gap;
  const place = one.fields.findIndex((field, index) => field !== other.fields[index]);
  return one.fields[place] - other.fields[place];
}

// A binary heap, the greatest `bound` on top.
class Heap {
  #items = [];

  get size() {
    return this.#items.length;
  }

  push(item) {
    const items = this.#items;
    let place = items.push(item) - 1;
    while (place) {
      const parent = (place - 1) >> 1;
      if (items[parent].bound >= items[place].bound) break;
      [items[parent], items[place]] = [items[place], items[parent]];
      place = parent;
    }
  }

  pop() {
    const items = this.#items;
    const top = items[0];
    const last = items.pop();
    if (items.length) items[0] = last;
    for (let place = 0; ;) {
      let best = place;
      for (const child of [2 * place + 1, 2 * place + 2]) {
        if (child < items.length && items[child].bound > items[best].bound) best = child;
      }
      if (best === place) return top;
      [items[best], items[place]] = [items[place], items[best]];
      place = best;
    }
  }
}
