// Fills the page.

const report = JSON.parse(byId('report').textContent);
startTheme();
showHeadline(report);
showWarnings(report.warnings);
const openCross = showCrosses(report.crosses);
showGraph(report.adjacency, openCross, new Set(report.crosses.map((cross) => cross.name)));
showAdjacency(report.adjacency);
showHistory(report.history);
showCurves(report.curves);
showLayers(report.layers);
showScatter(report.scatter);
showFields(report.data);
showReproduce(report.reproduce);
startCharts();
markContents();

// Shows in the contents which part is being read.
function markContents() {
  const links = [...document.querySelectorAll('.contents a')];
  const sections = links.map((link) => document.querySelector(link.hash));

  function mark() {
    const passed = sections.filter(
      (section) => section.getBoundingClientRect().top < window.innerHeight / 3,
    );
    const current = sections.indexOf(passed.at(-1) ?? sections[0]);
    links.forEach((link, place) =>
      place === current
        ? link.setAttribute('aria-current', 'true')
        : link.removeAttribute('aria-current'),
    );
  }

  window.addEventListener('scroll', oncePerFrame(mark), { passive: true });
  mark();
}
