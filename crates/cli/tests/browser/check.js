// Finds faults in the layout of a page at the width of its window: text outside of the window or of
// its figure, text that is cut off, text without contrast. Sends the faults to the parent window.
addEventListener("load", () => {
  const faults = [];
  const name = element => {
    const text = element.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
    return `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} "${text}"`;
  };
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    faults.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  }
  const ownText = element => [...element.childNodes]
    .some(node => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
  const scrolls = element => {
    const within = element.closest("table, pre");
    return within !== null && ["auto", "scroll"].includes(getComputedStyle(within).overflowX);
  };
  // WCAG 2.1, section 1.4.3: contrast of text, from the relative luminance of both colours.
  const channels = color => color.match(/[\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => [red, green, blue].map(value => value / 255)
    .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const background = element => {
    for (let at = element; at !== null; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  let texts = 0;
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const element of document.querySelectorAll("body *")) {
    if (!ownText(element) || !element.checkVisibility()) continue;
    if (["SCRIPT", "STYLE", "TITLE"].includes(element.tagName.toUpperCase())) continue;
    const box = element.getBoundingClientRect();
    if (box.width === 0) continue;
    texts += 1;
    const style = getComputedStyle(element);
    const svg = element.closest("svg");
    const frame = svg === null ? { left: 0, right: width } : svg.getBoundingClientRect();
    const outside = box.left < frame.left - 1 || box.right > frame.right + 1 ||
      svg !== null && (box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
    if (outside && !scrolls(element)) faults.push(`outside: ${name(element)}`);
    if (svg === null && style.overflowX === "hidden" && element.scrollWidth > element.clientWidth) {
      faults.push(`cut off: ${name(element)}`);
    }
    const color = channels(svg === null ? style.color : style.fill);
    const [bright, dark] = [luminance(color), luminance(background(element))].sort((a, b) => b - a);
    const contrast = (bright + 0.05) / (dark + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (contrast < (large ? 3 : 4.5)) faults.push(`contrast ${contrast.toFixed(1)}: ${name(element)}`);
  }
  // Find texts of a figure that overlap.
  for (const svg of document.querySelectorAll("svg")) {
    if (!svg.checkVisibility()) continue;
    const labels = [...svg.querySelectorAll("text")].map(text => [text, text.getBoundingClientRect()]);
    for (const [at, [text, box]] of labels.entries()) {
      for (const [other, own] of labels.slice(at + 1)) {
        const [x, y] = [Math.min(box.right, own.right) - Math.max(box.left, own.left),
          Math.min(box.bottom, own.bottom) - Math.max(box.top, own.top)];
        if (x > 2 && y > 4 && text.textContent.trim() !== "" && other.textContent.trim() !== "") {
          faults.push(`covered: ${name(text)} and ${name(other)}`);
        }
      }
    }
  }
  parent.postMessage({ frame: window.name, texts, faults }, "*");
});
