// How the edges and the temperature moved during the search.

function showHistory(history) {
  const place = byId('history-body');
  if (!history || !history.steps.length) {
    place.append(note('This run did not record how its edges moved.'));
    return;
  }
  const { unit, times } = timeline(history.epochs, history.steps);
  const overTime = (values) => values.map((value, snapshot) => [times[snapshot], value]);
  place.append(
    make(
      'div',
      { class: 'columns' },
      temperaturePart(history, overTime, unit),
      edgesPart(history, overTime, unit),
    ),
    make('h3', {}, 'Spread of the strengths after re-scaling'),
    make(
      'p',
      {},
      'The line is the median; half of the edges are in the dark band, nine in ten in the light one.',
    ),
    make(
      'div',
      { class: 'columns' },
      ...history.layers.map((layer, number) => spreadPart(layer, number + 1, overTime, unit)),
    ),
    make('h3', {}, 'Courses of single edges'),
    ...coursesPart(history.courses, overTime, unit),
  );
}

function temperaturePart({ temperature }, overTime, unit) {
  const label = `The temperature went from ${plain(temperature[0])} to ${plain(temperature.at(-1))}.`;
  const series = () => [line('Temperature', overTime(temperature), 4)];
  return make(
    'div',
    {},
    make('h3', {}, 'Temperature'),
    lineChart({ label, series, yAxis: { min: 0 }, show: (value) => fixed(value, 3), unit }),
  );
}

function edgesPart({ layers }, overTime, unit) {
  const sentences = layers.map(
    ({ edges }, layer) => `Layer ${layer + 1}: from ${count(edges[0])} to ${count(edges.at(-1))}.`,
  );
  const label = `How many edges counted. ${sentences.join(' ')}`;
  const series = () =>
    layers.map(({ edges }, layer) => line(layerName(layer + 1), overTime(edges), layer));
  return make(
    'div',
    {},
    make('h3', {}, 'Edges above the threshold'),
    lineChart({ label, series, yAxis: { min: 0 }, show: count, unit }),
  );
}

function spreadPart({ quantiles }, number, overTime, unit) {
  const level = (place) => quantiles.map((row) => row[place]);
  const gap = (low, high) => quantiles.map((row) => row[high] - row[low]);
  const medians = level(2);
  const label = `Layer ${number}: the median went from ${fixed(medians[0], 2)} to ${fixed(medians.at(-1), 2)}.`;
  const unseen = { symbol: 'none', lineStyle: { opacity: 0 }, silent: true };
  // A band is an area on top of an invisible one.
  const band = (stack, low, high, opacity) => [
    line(stack, overTime(level(low)), number - 1, { ...unseen, stack }),
    line(stack, overTime(gap(low, high)), number - 1, {
      ...unseen,
      stack,
      areaStyle: { color: seriesColour(number - 1), opacity },
    }),
  ];
  const content = ([{ dataIndex, value }]) => {
    const [p5, p25, p50, p75, p95] = quantiles[dataIndex];
    const two = (one) => fixed(one, 2);
    return tip(timeTitle(unit, value[0]), [
      ['Median', two(p50)],
      ['Half', range([p25, p75], two)],
      ['Nine in ten', range([p5, p95], two)],
    ]);
  };
  const option = () => ({
    tooltip: tooltip(content, 'axis'),
    grid: { left: 24, right: 20, top: 16, bottom: 28, containLabel: true },
    xAxis: timeAxis(unit),
    yAxis: axis('value', null, { min: 0, max: 1 }),
    series: [
      ...band('wide', 0, 4, 0.16),
      ...band('narrow', 1, 3, 0.3),
      line('Median', overTime(medians), number - 1),
    ],
  });
  return make('div', {}, make('h4', {}, `Layer ${number}`), addChart(label, 240, option).element);
}

function coursesPart(courses, overTime, unit) {
  if (!courses.length) return [note('No single edge was followed.')];
  const layers = [...new Set(courses.map((course) => course.layer))].sort((a, b) => a - b);
  const place = make('div');
  const name = (course) => `${course.start} to ${course.end}`;

  function show(layer) {
    const shown = courses.filter((course) => course.layer === Number(layer));
    const label = `Strengths of ${counted(shown.length, 'edge', 'edges')} of layer ${layer} over time; first and last values are in the table.`;
    const series = () =>
      shown.map((course, number) => line(name(course), overTime(course.soft), number));
    dropCharts(place);
    place.replaceChildren(
      lineChart({
        label,
        series,
        yAxis: { min: 0, max: 1 },
        show: (value) => fixed(value, 2),
        unit,
      }),
      figuresTable(
        `Courses of edges of layer ${layer}`,
        [{ label: 'Edge' }, { label: 'First', numeric: true }, { label: 'Last', numeric: true }],
        shown.map((course) => [
          name(course),
          fixed(course.soft[0], 3),
          fixed(course.soft.at(-1), 3),
        ]),
      ),
    );
  }

  show(layers[0]);
  return [
    make('p', {}, 'Those that ended strongest, and some that fell.'),
    choice(
      'Layer',
      layers.map((layer) => [layer, String(layer)]),
      show,
    ),
    place,
  ];
}
