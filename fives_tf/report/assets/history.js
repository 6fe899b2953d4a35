// How the edges and the temperature moved during the search.

function showHistory(history) {
  const place = byId('history-body');
  if (!history || !history.steps.length) {
    place.append(note('This run did not record how its edges moved.'));
    return;
  }
  place.append(make('div', { class: 'columns' }, temperaturePart(history), edgesPart(history)),
    make('h3', {}, 'Spread of the strengths after re-scaling'),
    make('p', {}, 'The line is the median; half of the edges are in the dark band, nine in ten in the light one.'),
    make('div', { class: 'columns' }, ...history.layers.map((layer, number) => spreadPart(history, layer, number + 1))),
    make('h3', {}, 'Courses of single edges'), ...coursesPart(history));
}

function epochAxis() {
  return axis('value', 'Epoch', { minInterval: 1, min: 'dataMin', max: 'dataMax', splitLine: { show: false } });
}

function overEpochs(history, values) {
  return values.map((value, snapshot) => [history.epochs[snapshot] ?? snapshot + 1, value]);
}

function seriesTip(title, show) {
  return (items) => tip(title(items[0].value[0]), items.map(({ seriesName, value }) => [seriesName, show(value[1])]));
}

function epochTitle(epoch) {
  return `Epoch ${plain(epoch)}`;
}

function lineChart(label, series, yAxis, show) {
  return addChart(label, 300, () => ({
    tooltip: tooltip(seriesTip(epochTitle, show), 'axis'),
    legend: legend(),
    grid: { left: 24, right: 20, top: 40, bottom: 28, containLabel: true },
    xAxis: epochAxis(),
    yAxis: yAxis(),
    series: series(),
  })).element;
}

function temperaturePart(history) {
  const [first, last] = [history.temperature[0], history.temperature.at(-1)];
  return make('div', {}, make('h3', {}, 'Temperature'), lineChart(
    `The temperature went from ${plain(first)} to ${plain(last)} in ${counted(history.steps.length, 'snapshot', 'snapshots')}.`,
    () => [line('Temperature', overEpochs(history, history.temperature), 4)],
    () => axis('value', null, { min: 0 }), (value) => fixed(value, 3)));
}

function edgesPart(history) {
  const sentences = history.layers.map(({ edges }, layer) => `Layer ${layer + 1}: from ${count(edges[0])} to ${count(edges.at(-1))}.`);
  return make('div', {}, make('h3', {}, 'Edges above the threshold'), lineChart(
    `How many edges counted. ${sentences.join(' ')}`,
    () => history.layers.map((layer, number) => line(`Layer ${number + 1}`, overEpochs(history, layer.edges), number)),
    () => axis('value', null, { min: 0 }), count));
}

function spreadPart(history, layer, number) {
  const level = (place) => layer.quantiles.map((quantiles) => quantiles[place]);
  const medians = level(2);
  const label = `Layer ${number}: the median went from ${fixed(medians[0], 2)} to ${fixed(medians.at(-1), 2)}.`;
  // A band is an area on top of an invisible one.
  const band = (name, low, high, opacity) => [
    { ...line(name, overEpochs(history, level(low)), number - 1), stack: name, symbol: 'none', lineStyle: { opacity: 0 }, silent: true },
    {
      ...line(name, overEpochs(history, level(high).map((value, place) => value - level(low)[place])), number - 1),
      stack: name, symbol: 'none', lineStyle: { opacity: 0 }, areaStyle: { color: seriesColour(number - 1), opacity }, silent: true,
    },
  ];
  const option = () => ({
    tooltip: tooltip((items) => {
      const [p5, p25, p50, p75, p95] = layer.quantiles[items[0].dataIndex];
      const show = (low, high) => `${fixed(low, 2)} to ${fixed(high, 2)}`;
      return tip(epochTitle(items[0].value[0]), [['Median', fixed(p50, 2)], ['Half', show(p25, p75)], ['Nine in ten', show(p5, p95)]]);
    }, 'axis'),
    grid: { left: 24, right: 20, top: 16, bottom: 28, containLabel: true },
    xAxis: epochAxis(),
    yAxis: axis('value', null, { min: 0, max: 1 }),
    series: [...band('wide', 0, 4, 0.16), ...band('narrow', 1, 3, 0.3), line('Median', overEpochs(history, medians), number - 1)],
  });
  return make('div', {}, make('h4', {}, `Layer ${number}`), addChart(label, 240, option).element);
}

function coursesPart(history) {
  if (!history.courses.length) return [note('No single edge was followed.')];
  const layers = [...new Set(history.courses.map((course) => course.layer))].sort((a, b) => a - b);
  const place = make('div');
  const name = (course) => `${course.start} to ${course.end}`;

  function show(layer) {
    const courses = history.courses.filter((course) => course.layer === Number(layer));
    dropCharts(place);
    place.replaceChildren(
      lineChart(`Strengths of ${counted(courses.length, 'edge', 'edges')} of layer ${layer} over the epochs; their first and last values are in the table.`,
        () => courses.map((course, number) => line(name(course), overEpochs(history, course.soft), number, { symbol: number < 8 ? 'circle' : 'triangle' })),
        () => axis('value', null, { min: 0, max: 1 }), (value) => fixed(value, 2)),
      figuresTable(`Courses of edges of layer ${layer}`, [{ label: 'Edge' }, { label: 'First', numeric: true }, { label: 'Last', numeric: true }],
        courses.map((course) => [name(course), fixed(course.soft[0], 3), fixed(course.soft.at(-1), 3)])));
  }

  show(layers[0]);
  return [make('p', {}, 'Those that ended strongest, and some that fell.'),
    choice('Layer', layers.map((layer) => [layer, String(layer)]), show), place];
}
