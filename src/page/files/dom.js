// Creates elements, and updates those on the screen.

const kSvg = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === '') continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

// Creates an element: h('td', {class: 'number'}, 12, ' W'). Empty children and attributes are skipped.
export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// Creates an SVG element in the same way.
export function s(name, attributes, ...children) {
  return fill(document.createElementNS(kSvg, name), attributes, children);
}

function sameThing(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute('data-key') : null;
}

function matchAttributes(old, wanted) {
  for (const {name} of [...old.attributes]) {
    // Sections that the viewer has opened remain open.
    if (!wanted.hasAttribute(name) && !(name === 'open' && old.nodeName === 'DETAILS')) old.removeAttribute(name);
  }
  for (const {name, value} of wanted.attributes) {
    if (old.getAttribute(name) === value) continue;
    old.setAttribute(name, value);
    if (name === 'value') old.value = value;  // otherwise a field would still show what the viewer had typed
  }
}

// Makes the children of `old` equal to `wanted`. Children that are already equal are left alone, so the focus, selected
// text and scroll positions are preserved.
export function match(old, wanted) {
  const byKey = new Map();
  for (const child of old.children) {
    const key = keyOf(child);
    if (key !== null) byKey.set(key, child);
  }
  let at = old.firstChild;
  for (const child of wanted) {
    const key = keyOf(child);
    const known = key === null ? at : byKey.get(key);
    if (known && sameThing(known, child)) {
      if (known === at) at = at.nextSibling;
      else old.insertBefore(known, at);
      if (child.nodeType === Node.TEXT_NODE) {
        if (known.data !== child.data) known.data = child.data;
      } else {
        matchAttributes(known, child);
        // Frames and fields that the viewer fills in are left unchanged.
        if (!known.hasAttribute('data-own')) match(known, [...child.childNodes]);
      }
    } else {
      old.insertBefore(child, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}
