// The feature graph with a slider for the threshold, and the crosses that it yields.

const MOST_PATHS = 20000; // for each order: so many are visited in a blink
const MOST_LISTED = 100;
const START_THRESHOLD = 0.5; // where the slider stands as long as the search's own edges are shown

function showGraph(adjacency, openCross, known) {
  const place = byId('graph-body');
  if (!adjacency.layers.length || !adjacency.fields.length) {
    place.append(note('This run has no feature graph.'));
    return;
  }
  new FeatureGraph(place, adjacency, openCross, known).update();
}

class FeatureGraph {
  constructor(place, adjacency, openCross, known) {
    this.adjacency = adjacency;
    this.openCross = openCross;
    this.known = known;
    this.threshold = null; // those of the search
    this.start = null;
    this.cross = null;
    this.later = oncePerFrame(() => this.update());
    this.shown = make('output', { for: 'threshold' });
    this.slider = make('input', {
      type: 'range',
      id: 'threshold',
      min: 0,
      max: 1,
      step: 0.01,
      value: START_THRESHOLD,
      input: () => this.slide(),
    });
    this.starts = select(
      'Start field',
      [['', 'All'], ...adjacency.fields.map((field, number) => [number, field])],
      (value) => this.choose(value === '' ? null : Number(value)),
    );
    this.told = make('p', { class: 'quiet', role: 'status' });
    this.chosen = make('div', { class: 'chosen-cross' });
    this.layers = make('div', { class: 'layers' });
    this.lists = make('div', { class: 'lists' });
    const box = scrollBox('Feature graph', this.layers);
    box.classList.add('tall');
    place.append(
      make(
        'div',
        { class: 'controls' },
        make(
          'label',
          { class: 'control wide', for: 'threshold' },
          make('span', {}, 'Threshold ', this.shown),
          this.slider,
        ),
        this.starts.element,
      ),
      this.told,
      box,
      this.chosen,
      make('h3', {}, 'Crosses above the threshold'),
      make('p', { class: 'quiet' }, 'Choose a cross to see its path in the graph.'),
      this.lists,
    );
    // The drawing has no width before it is part of the page, and a new one when the window has.
    new ResizeObserver(() => this.later()).observe(box);
  }

  slide() {
    this.threshold = Number(this.slider.value);
    this.cross = null;
    this.later();
  }

  choose(start) {
    this.start = start === this.start ? null : start;
    this.starts.control.value = this.start ?? '';
    this.cross = null;
    this.update();
  }

  pick(cross) {
    this.cross = this.isPicked(cross) ? null : cross;
    this.update();
  }

  update() {
    this.shown.textContent =
      this.threshold === null ? 'as in the search' : fixed(this.threshold, 2);
    const { columns, layers } = this.adjacency;
    const starts = edgesAbove(columns, layers, this.threshold);
    const edges = edgesOfLayers(starts);
    const found = crossesOf(
      starts.map((lists, start) => this.wanted(lists, start)),
      columns,
      MOST_PATHS,
    );
    this.tell(found, edges);
    this.drawLayers(edges);
    this.list(found);
    this.showCross();
  }

  // The edges that crosses are made of: those of the chosen start field, or all.
  wanted(lists, start) {
    return this.start === null || this.start === start ? lists : lists.map(() => []);
  }

  tell(found, edges) {
    const layers = edges.map(
      (list, layer) => `${counted(list.length, 'edge', 'edges')} in layer ${layer + 1}`,
    );
    const orders = found.orders.map(
      ({ order, crosses }) => `${count(crosses.length)} of order ${order}`,
    );
    const { fields, left_out: left } = this.adjacency;
    const from = this.start === null ? '' : ` that start at ${fields[this.start]}`;
    this.told.textContent = [
      `${layers.join(', ')}; crosses${from}: ${orders.join(', ')}.`,
      found.complete
        ? ''
        : 'There are too many paths to visit all: only the best ones are counted and listed.',
      edges.some((list) => list.length > MOST_EDGES)
        ? `The ${MOST_EDGES} strongest edges of each layer are drawn.`
        : '',
      left ? `${counted(left, 'field', 'fields')} without strong edges left out.` : '',
    ]
      .filter(Boolean)
      .join(' ');
  }

  drawLayers(edges) {
    const gap = 16;
    const room = this.layers.clientWidth || 640;
    const beside = Math.max(1, Math.min(edges.length, Math.floor((room + gap) / (300 + gap))));
    const width = Math.min(520, Math.floor((room - gap * (beside - 1)) / beside));
    this.layers.replaceChildren(
      ...edges.map((list, layer) =>
        make(
          'figure',
          {},
          make('figcaption', {}, `Layer ${layer + 1}: crosses of ${layer + 2} fields`),
          drawLayer({
            number: layer + 1,
            fields: this.adjacency.fields,
            edges: list.slice(0, MOST_EDGES),
            width,
            tone: (edge) => this.tone(edge, layer),
            chosen: this.cross ? this.cross.path[0] : this.start,
            choose: (field) => this.choose(field),
          }),
        ),
      ),
    );
  }

  tone({ start, end }, layer) {
    if (this.cross)
      return this.cross.path[0] === start && this.cross.path[layer + 1] === end ? 'on' : 'off';
    if (this.start !== null) return this.start === start ? 'on' : 'off';
    return 'plain';
  }

  list({ orders }) {
    const focused = document.activeElement?.dataset.fields;
    this.lists.replaceChildren(
      ...orders.map(({ order, crosses }) => {
        const listed = crosses.slice(0, MOST_LISTED);
        return make(
          'div',
          {},
          make('h4', {}, `Order ${order}: ${counted(crosses.length, 'cross', 'crosses')}`),
          make(
            'ol',
            { 'data-order': order },
            ...listed.map((cross) =>
              make(
                'li',
                {},
                make(
                  'button',
                  {
                    type: 'button',
                    'data-fields': cross.fields.join(),
                    'aria-pressed': String(this.isPicked(cross)),
                    click: () => this.pick(cross),
                  },
                  make('span', { class: 'name' }, this.nameOf(cross)),
                  make('span', { class: 'score' }, fixed(cross.score, 4)),
                ),
              ),
            ),
          ),
          crosses.length > listed.length
            ? make('p', { class: 'quiet' }, `and ${count(crosses.length - listed.length)} more`)
            : null,
        );
      }),
    );
    if (focused)
      this.lists.querySelector(`[data-fields="${focused}"]`)?.focus({ preventScroll: true });
  }

  nameOf(cross) {
    return cross.fields.map((field) => this.adjacency.fields[field]).join(' x ');
  }

  isPicked(cross) {
    return this.cross !== null && this.cross.fields.join() === cross.fields.join();
  }

  showCross() {
    const { cross } = this;
    this.chosen.replaceChildren();
    if (!cross) return;
    const { fields } = this.adjacency;
    const name = this.nameOf(cross);
    const [start, ...ends] = cross.path;
    const hops = ends.map(
      (end, layer) =>
        `${fields[start]} to ${fields[end]} in layer ${layer + 1} (${fixed(cross.strengths[layer], 2)})`,
    );
    this.chosen.append(make('p', {}, make('strong', {}, name), `: ${hops.join(', then ')}.`));
    if (this.known.has(name)) {
      this.chosen.append(
        make(
          'button',
          { type: 'button', class: 'button', click: () => this.openCross(name) },
          'Show its values',
        ),
      );
    }
  }
}

// The edges of each layer as {start, end, strength}, strongest first.
function edgesOfLayers(starts) {
  return starts[0].map((_, layer) =>
    starts
      .flatMap((lists, start) =>
        lists[layer].map(({ end, strength }) => ({ start, end, strength })),
      )
      .sort((one, other) => other.strength - one.strength),
  );
}
