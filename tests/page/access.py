"""Checks with computed styles that all users can read and operate the page."""

# Texts whose colour has too little contrast with the background, as [ratio, text, selector]. The limits are those of WCAG 2.1 AA.
FAINT = r"""(() => {
  const parse = (text) => { const m = text.match(/[\d.]+/g).map(Number); return {r: m[0], g: m[1], b: m[2], a: m.length > 3 ? m[3] : 1}; };
  const over = (top, below) => ({r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a),
    b: top.b * top.a + below.b * (1 - top.a), a: 1});
  const light = ({r, g, b}) => { const f = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); layers.push(c); if (c.a === 1) break; }
    let below = {r: 255, g: 255, b: 255, a: 1};
    for (const layer of layers.reverse()) below = over(layer, below);
    return below;
  };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, element = node.parentElement;
    if (!node.data.trim() || element.closest('svg, .unseen, .skip, noscript, script')) continue;
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (box.width === 0 || box.height === 0 || style.visibility === 'hidden') continue;
    const back = behind(element), ink = over(parse(style.color), back);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push([ratio.toFixed(2), node.data.trim().slice(0, 40), element.tagName + '.' + element.className]);
  }
  return faint;
})()"""

# Elements that have no name for screen readers, are out of order, or cannot be reached.
NAMELESS = r"""(() => {
  const found = [];
  const note = (what, element) => found.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const named = (e) => (e.getAttribute('aria-label') || e.textContent || e.title || '').trim();
  if (!document.documentElement.lang) found.push('no language');
  if (!document.title) found.push('no title');
  if (document.querySelectorAll('main').length !== 1) found.push('not one main');
  if (document.querySelectorAll('main h1').length !== 1) found.push(`${document.querySelectorAll('main h1').length} h1`);
  let level = 1;
  for (const heading of document.querySelectorAll('main h1, main h2, main h3, main h4')) {
    const own = +heading.tagName[1];
    if (own > level + 1) note('a level of headings is left out', heading);
    level = own;
  }
  for (const e of document.querySelectorAll('a, button')) if (!named(e)) note('without a name', e);
  for (const e of document.querySelectorAll('a')) if (!e.getAttribute('href')) note('leads nowhere', e);
  for (const e of document.querySelectorAll('svg:not([aria-hidden])'))
    if (e.getAttribute('role') !== 'img' || !e.getAttribute('aria-label')) note('a drawing without words', e);
  for (const e of document.querySelectorAll('input, select, textarea')) if (e.labels.length === 0 && !e.getAttribute('aria-label')) note('a field without label', e);
  for (const e of document.querySelectorAll('iframe')) if (!e.title) note('a frame without title', e);
  for (const e of document.querySelectorAll('table')) {
    if (!e.caption) note('a table without caption', e);
    for (const th of e.querySelectorAll('th')) if (!th.scope) note('a heading without scope', th);
  }
  for (const e of document.querySelectorAll('[aria-labelledby]')) if (!document.getElementById(e.getAttribute('aria-labelledby'))) note('named by nothing', e);
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`id ${id} twice`);
  for (const e of document.querySelectorAll('nav a, button')) if (e.getBoundingClientRect().height > 0 && e.getBoundingClientRect().height < 24) note('too small to hit', e);
  return [...new Set(found)];
})()"""

# Positive if the page is wider than the window.
TOO_WIDE = "document.documentElement.scrollWidth - innerWidth"
