// Light and dark. The colours are those of report.css; charts read them from there.

const themeListeners = [];
const prefersDark = window.matchMedia('(prefers-color-scheme: dark)');

function currentTheme() {
  return document.documentElement.dataset.theme;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const other = theme === 'dark' ? 'light' : 'dark';
  byId('theme').textContent = other === 'dark' ? 'Dark theme' : 'Light theme';
  themeListeners.forEach((listener) => listener());
}

function startTheme() {
  setTheme(prefersDark.matches ? 'dark' : 'light');
  prefersDark.addEventListener('change', () => setTheme(prefersDark.matches ? 'dark' : 'light'));
  byId('theme').addEventListener('click', () =>
    setTheme(currentTheme() === 'dark' ? 'light' : 'dark'),
  );
}

function onTheme(listener) {
  themeListeners.push(listener);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// The colour of the n-th of several things in one chart; they repeat after eight.
function seriesColour(place) {
  return colour(`series-${place % 8}`);
}
