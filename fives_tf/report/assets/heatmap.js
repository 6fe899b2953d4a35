// The adjacency tensor as heat maps, one a layer, to be read with the pointer or the arrow keys.

// Viridis: rises evenly in lightness, so that it also reads without colours.
const VIRIDIS = [
  '#440154',
  '#482878',
  '#3e4989',
  '#31688e',
  '#26828e',
  '#1f9e89',
  '#35b779',
  '#6ece58',
  '#b5de2b',
  '#fde725',
];
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function showAdjacency(adjacency) {
  const place = byId('adjacency-body');
  if (!adjacency.layers.length || !adjacency.fields.length) {
    place.append(note('This run has no adjacency tensor.'));
    return;
  }
  const spoken = make('p', { class: 'hidden', 'aria-live': 'polite', id: 'adjacency-cell' });
  // Two maps side by side if that leaves cells that can be seen, with a gap of 28 between them.
  const half = (place.clientWidth - 76) / 2;
  const beside = half / adjacency.fields.length > 20;
  const room = beside ? half : place.clientWidth - 48;
  const maps = adjacency.layers.map(
    (layer, number) => new HeatMap(adjacency, layer, number + 1, spoken, room),
  );
  const temperature = isKnown(adjacency.temperature)
    ? ` (temperature ${plain(adjacency.temperature)})`
    : '';
  place.append(
    make(
      'div',
      { class: 'controls' },
      choice(
        'Show',
        [
          ['strength', 'Before re-scaling'],
          ['soft', `After re-scaling${temperature}`],
        ],
        (kind) => maps.forEach((map) => map.show(kind)),
      ),
    ),
    make(
      'p',
      { class: 'quiet' },
      'Point at a cell, or move to a map with the tab key and then with the arrow keys, to read its value.',
    ),
    spoken,
    make('div', { class: beside ? 'maps beside' : 'maps' }, ...maps.map((map) => map.element)),
  );
}

class HeatMap {
  constructor(adjacency, layer, number, spoken, room) {
    this.fields = adjacency.fields;
    this.columns = adjacency.columns;
    this.layer = layer;
    this.number = number;
    this.spoken = spoken;
    this.kind = 'strength';
    this.cell = null;
    this.chart = null;
    // Names take the room that the longest of them needs, within reason.
    this.margin =
      24 + 6.6 * Math.min(18, Math.max(...this.fields.map((field) => [...field].length)));
    this.side = cellSide(room - this.margin - 16, this.fields.length);
    this.slant = this.side < 24 ? 90 : 60; // so that names do not touch
    const length = this.side * this.fields.length;
    this.drawing = addChart(
      this.label(),
      this.margin + length + 16,
      () => this.option(),
      (chart) => {
        this.chart = chart;
      },
    );
    const map = this.drawing.element;
    map.style.width = `${this.margin + length + 16}px`;
    map.setAttribute('tabindex', '0');
    map.setAttribute('role', 'application');
    map.setAttribute('aria-roledescription', 'heat map');
    map.addEventListener('keydown', (event) => this.move(event));
    map.addEventListener('blur', () => this.chart?.dispatchAction({ type: 'hideTip' }));
    this.summary = make('p', { class: 'quiet' }, this.label());
    this.table = make('div');
    this.element = make(
      'figure',
      {},
      make('figcaption', {}, `Layer ${number}`),
      make('div', { class: 'scroll' }, map),
      scaleBar(),
      this.summary,
      this.table,
    );
    this.fillTable();
  }

  show(kind) {
    this.kind = kind;
    this.drawing.redraw();
    this.drawing.element.setAttribute('aria-label', this.label());
    this.summary.textContent = this.label();
    this.fillTable();
  }

  edges() {
    return this.layer[this.kind]
      .flatMap((row, start) => row.map((strength, end) => ({ start, end, strength })))
      .filter(({ start, end }) => this.mayCross(start, end))
      .sort((one, other) => other.strength - one.strength);
  }

  mayCross(start, end) {
    return this.columns[start] !== this.columns[end];
  }

  label() {
    const edges = this.edges();
    const used = edges.filter(({ start, end }) => this.layer.edges[start][end]).length;
    return `Layer ${this.number}: ${count(used)} of ${counted(edges.length, 'edge', 'edges')} count in the search. ${strongest(edges, this.fields)}`;
  }

  fillTable() {
    const rows = this.edges()
      .slice(0, 20)
      .map(({ start, end, strength }) => [
        this.fields[start],
        this.fields[end],
        fixed(strength, 4),
      ]);
    this.table.replaceChildren(
      figuresTable(
        `Strongest edges of layer ${this.number}`,
        [{ label: 'Start' }, { label: 'End' }, { label: 'Strength', numeric: true }],
        rows,
      ),
    );
  }

  say(start, end) {
    const names = `${this.fields[start]} to ${this.fields[end]}`;
    const value = this.mayCross(start, end)
      ? fixed(this.layer[this.kind][start][end], 2)
      : 'never crossed, same column';
    return [names, value];
  }

  move(event) {
    const step = ARROWS[event.key];
    if (!step) return;
    draw(this.drawing.element);
    event.preventDefault();
    const last = this.fields.length - 1;
    const within = (value) => Math.max(0, Math.min(last, value));
    this.cell = this.cell
      ? this.cell.map((value, axisNumber) => within(value + step[axisNumber]))
      : [0, 0];
    const [start, end] = this.cell;
    const dataIndex = start * this.fields.length + end;
    this.chart.dispatchAction({ type: 'downplay', seriesIndex: 0 });
    this.chart.dispatchAction({ type: 'highlight', seriesIndex: 0, dataIndex });
    this.chart.dispatchAction({ type: 'showTip', seriesIndex: 0, dataIndex });
    this.spoken.textContent = `layer ${this.number}, ${this.say(start, end).join(': ')}`;
    this.keepInSight(start, end);
  }

  keepInSight(start, end) {
    const box = this.drawing.element.parentElement;
    const x = this.margin + (end + 0.5) * this.side;
    const y = this.margin + (start + 0.5) * this.side;
    if (x < box.scrollLeft + this.margin || x > box.scrollLeft + box.clientWidth - this.side)
      box.scrollLeft = x - box.clientWidth / 2;
    if (y < box.scrollTop + this.margin || y > box.scrollTop + box.clientHeight - this.side)
      box.scrollTop = y - box.clientHeight / 2;
  }

  option() {
    const names = (place) => ({
      type: 'category',
      data: this.fields.map((_, number) => number),
      position: place,
      axisTick: { show: false },
      axisLine: { show: false },
      splitLine: { show: false },
      axisLabel: axisText((number) => shortened(this.fields[number], 18), {
        color: colour('text'),
        interval: 0,
        hideOverlap: false,
        rotate: place === 'top' ? this.slant : 0,
      }),
    });
    const data = this.layer[this.kind].flatMap((row, start) =>
      row.map((value, end) => ({
        // An empty cell is there for the cursor, but has no colour.
        value: [end, start, this.mayCross(start, end) ? value : -1],
        itemStyle: this.mayCross(start, end) ? undefined : { color: colour('background') },
      })),
    );
    return {
      grid: { left: this.margin, top: this.margin, right: 16, bottom: 16, containLabel: false },
      tooltip: tooltip(({ value: [end, start] }) =>
        tip(`Layer ${this.number}`, [this.say(start, end)]),
      ),
      visualMap: {
        show: false,
        min: 0,
        max: 1,
        inRange: { color: VIRIDIS },
        outOfRange: { color: colour('background') },
      },
      xAxis: names('top'),
      yAxis: { ...names('left'), inverse: true },
      series: [
        {
          type: 'heatmap',
          data,
          itemStyle: { borderColor: colour('surface'), borderWidth: this.side > 14 ? 1 : 0.5 },
          emphasis: { itemStyle: { borderColor: colour('text'), borderWidth: 2 } },
        },
      ],
    };
  }
}

// The side of a cell in a map that should fill some room, but may be wider.
function cellSide(room, cells) {
  return Math.max(13, Math.min(36, Math.floor(room / cells)));
}

function scaleBar() {
  const steps = VIRIDIS.map((fill, place) =>
    makeSvg('rect', { x: 12 * place, y: 0, width: 12, height: 10, fill }),
  );
  return make(
    'p',
    { class: 'scale', 'aria-hidden': 'true' },
    '0 ',
    makeSvg('svg', { width: 120, height: 10 }, ...steps),
    ' 1',
  );
}
