// What is wrong with the page, as a list of texts: names, labels, headings, contrast.
const wrong = [];
const shown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && element.getClientRects().length > 0;
const name = (element) => `${element.tagName.toLowerCase()}.${element.className} ${(element.innerText || element.name || "").slice(0, 40)}`;
if (!document.documentElement.lang) wrong.push("no language");
if (!document.title) wrong.push("no title");
if (document.querySelectorAll("h1").length !== 1) wrong.push(`${document.querySelectorAll("h1").length} first headings`);
const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`the id ${id} twice`);
for (const field of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
  if (!field.labels?.length && !field.ariaLabel) wrong.push(`no label: ${name(field)}`);
for (const element of document.querySelectorAll("a, button, summary"))
  if (!element.textContent.trim() && !element.ariaLabel) wrong.push(`no name: ${element.outerHTML.slice(0, 80)}`);
for (const cell of document.querySelectorAll("th"))
  if (cell.querySelector("input") && !cell.textContent.trim()) wrong.push("a column without a name");

const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = (colour) => {
  paint.clearRect(0, 0, 1, 1);
  paint.fillStyle = colour;
  paint.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const ground = (element) => {
  const own = rgba(getComputedStyle(element).backgroundColor);
  if (own[3] === 1) return own;
  const below = element.parentElement ? ground(element.parentElement) : rgba("Canvas");
  return over(own, below);
};
const light = (colour) => {
  const [r, g, b] = colour.slice(0, 3).map((it) => (it / 255 <= 0.04045 ? it / 255 / 12.92 : ((it / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const seen = new Set();
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || seen.has(element) || !shown(element) || element.closest("svg, option")) continue;
  seen.add(element);
  const below = ground(element);
  const [a, b] = [light(over(rgba(getComputedStyle(element).color), below)), light(below)];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) wrong.push(`contrast ${ratio.toFixed(1)}: ${name(element)}`);
}
return [...new Set(wrong)];
