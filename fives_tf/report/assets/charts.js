// Charts that are drawn when they come into sight, and again when the theme or their size changes.

const drawings = new Map();
const sight =
  'IntersectionObserver' in window
    ? new IntersectionObserver(comeIntoSight, { rootMargin: '300px' })
    : null;
const sizes = new ResizeObserver((entries) =>
  entries.forEach((entry) => drawings.get(entry.target)?.chart?.resize()),
);

// Makes the place of a chart. `label` says in words what it shows; `option` makes the options of
// ECharts, with the colours of the theme at hand.
function addChart(label, height, option, ready = () => {}) {
  const element = make('div', { class: 'chart', role: 'img', 'aria-label': label });
  element.style.height = `${height}px`;
  const drawing = { chart: null, option, ready };
  drawings.set(element, drawing);
  // Not before the place is part of the page and has a width.
  if (sight) sight.observe(element);
  else requestAnimationFrame(() => draw(element));
  return { element, redraw: () => redraw(drawing) };
}

// Forgets the charts in a part of the page that goes away.
function dropCharts(part) {
  for (const [element, drawing] of drawings) {
    if (!part.contains(element)) continue;
    sight?.unobserve(element);
    sizes.unobserve(element);
    drawing.chart?.dispose();
    drawings.delete(element);
  }
}

function drawAll() {
  [...drawings.keys()].forEach(draw);
}

function comeIntoSight(entries) {
  entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target));
}

function draw(element) {
  const drawing = drawings.get(element);
  if (!drawing || drawing.chart || !element.clientWidth) return;
  // Paper shows more points than a plain screen.
  drawing.chart = echarts.init(element, null, {
    renderer: 'canvas',
    devicePixelRatio: Math.max(2, window.devicePixelRatio),
  });
  drawing.chart.setOption(base(drawing.option()));
  drawing.ready(drawing.chart);
  sight?.unobserve(element);
  sizes.observe(element);
}

function redraw(drawing) {
  drawing.chart?.setOption(base(drawing.option()), true);
}

function base(option) {
  const font = getComputedStyle(document.body).fontFamily;
  return {
    animation: false,
    textStyle: { fontFamily: font, fontSize: 12, color: colour('muted') },
    grid: { left: 8, right: 16, top: 40, bottom: 8, containLabel: true },
    ...option,
  };
}

function axis(type, name, more = {}) {
  return {
    type,
    name,
    nameLocation: 'middle',
    nameGap: 30,
    nameTextStyle: { color: colour('muted'), fontSize: 12 },
    axisLabel: axisText(),
    axisLine: { lineStyle: { color: colour('line-strong') } },
    splitLine: { lineStyle: { color: colour('line') } },
    ...more,
  };
}

function axisText(formatter = undefined, more = {}) {
  return { color: colour('muted'), fontSize: 11, hideOverlap: true, formatter, ...more };
}

function legend(more = {}) {
  return {
    type: 'scroll',
    top: 4,
    left: 0,
    inactiveColor: colour('line-strong'),
    icon: 'circle',
    itemWidth: 10,
    itemHeight: 10,
    textStyle: { color: colour('text'), fontSize: 12, lineHeight: 20 }, // else names are clipped
    pageTextStyle: { color: colour('muted') },
    pageIconColor: colour('accent'),
    pageIconInactiveColor: colour('line-strong'),
    ...more,
  };
}

// Bars from `low` to `high` beside a point; data: [place, low, high], upright or lying.
function intervals(name, data, tone, lying = false) {
  return {
    type: 'custom',
    name,
    data,
    silent: true,
    tooltip: { show: false },
    itemStyle: { color: tone },
    encode: lying ? { x: [1, 2], y: 0 } : { x: 0, y: [1, 2] },
    renderItem: (_, api) => {
      const end = (number) =>
        api.coord(lying ? [api.value(number), api.value(0)] : [api.value(0), api.value(number)]);
      const [x1, y1] = end(1);
      const [x2, y2] = end(2);
      return {
        type: 'line',
        shape: { x1, y1, x2, y2 },
        style: { stroke: tone, lineWidth: 2, opacity: 0.55 },
      };
    },
  };
}

function startCharts() {
  onTheme(() => drawings.forEach(redraw));
  let themeOnScreen = null;
  window.addEventListener('beforeprint', () => {
    themeOnScreen = currentTheme();
    setTheme('light');
    drawAll();
  });
  window.addEventListener('afterprint', () => setTheme(themeOnScreen));
}
