// Charts of lines over epochs, or over steps where epochs are not known.

const SYMBOLS = ['circle', 'triangle', 'rect'];

// A line with a point at each figure, so that a single one is seen too.
function line(name, data, place, more = {}) {
  const tone = seriesColour(place);
  return {
    type: 'line',
    name,
    data,
    symbol: SYMBOLS[Math.floor(place / 8) % 3],
    symbolSize: 5,
    connectNulls: true,
    lineStyle: { width: 2, color: tone },
    itemStyle: { color: tone },
    ...more,
  };
}

// series: () => lines; show: a value => its text; unit: 'Epoch' or 'Step'.
function lineChart({ label, series, yAxis, show, unit }) {
  const content = (items) =>
    tip(
      timeTitle(unit, items[0].value[0]),
      items.map(({ seriesName, value }) => [seriesName, show(value[1])]),
    );
  return addChart(label, 300, () => ({
    tooltip: tooltip(content, 'axis'),
    legend: legend(),
    grid: { left: 24, right: 20, top: 40, bottom: 28, containLabel: true },
    xAxis: timeAxis(unit),
    yAxis: axis('value', null, yAxis),
    series: series(),
  })).element;
}

function timeAxis(unit) {
  return axis('value', unit, {
    minInterval: 1,
    min: 'dataMin',
    max: 'dataMax',
    splitLine: { show: false },
  });
}

function timeTitle(unit, time) {
  return `${unit} ${plain(time)}`;
}

// When points were taken: {unit, times}.
function timeline(epochs, steps) {
  return epochs.every(isKnown) ? { unit: 'Epoch', times: epochs } : { unit: 'Step', times: steps };
}
