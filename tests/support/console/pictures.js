// Pictures in a browser: kept ones are shrunk, and compared by the mean colour of small cells.
const read = async (type, data) => {
  const image = new Image();
  image.src = `data:image/${type};base64,${data}`;
  await image.decode();
  return image;
};

const drawn = (image, width, height) => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, width, height);
  return [canvas, context];
};

const mean = (data) => {
  const sum = [0, 0, 0];
  for (let at = 0; at < data.length; at += 1) if (at % 4 < 3) sum[at % 4] += data[at];
  return sum.map((each) => each / (data.length / 4));
};

const cells = (image, size) => {
  const [, context] = drawn(image, image.width, image.height);
  const [columns, rows] = [Math.floor(image.width / size), Math.floor(image.height / size)];
  const found = [];
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      found.push(mean(context.getImageData(column * size, row * size, size, size).data));
    }
  }
  return { columns, rows, found };
};

window.shrink = async (png, by, quality) => {
  const image = await read("png", png);
  const [canvas] = drawn(image, Math.round(image.width / by), Math.round(image.height / by));
  return canvas.toDataURL("image/webp", quality).split(",")[1];
};

window.compare = async (kept, seen, by, size, apart) => {
  const [old, now] = [cells(await read("webp", kept), size / by), cells(await read("png", seen), size)];
  if (old.columns !== now.columns || Math.abs(old.rows - now.rows) > 1) {
    const text = (of) => `${of.columns * size} by ${of.rows * size} pixels`;
    return { share: 1, where: `it has ${text(now)}, and had ${text(old)}` };
  }
  const count = Math.min(old.found.length, now.found.length);
  const differs = (at) => old.found[at].some((each, one) => Math.abs(each - now.found[at][one]) > apart);
  const other = [...Array(count).keys()].filter(differs);
  const span = (of) => `${Math.min(...of) * size} to ${(Math.max(...of) + 1) * size}`;
  const [xs, ys] = [other.map((at) => at % now.columns), other.map((at) => Math.floor(at / now.columns))];
  return { share: other.length / count, where: other.length > 0 ? `x ${span(xs)}, y ${span(ys)}` : "" };
};

// The least part of a picture that holds all that differs from the one before; null where nothing does.
window.changes = async (before, after) => {
  const now = await read("png", after);
  const then = before === "" ? null : await read("png", before);
  const data = (image) => drawn(image, now.width, now.height)[1].getImageData(0, 0, now.width, now.height).data;
  const [left, top, right, bottom] = then === null ? [0, 0, now.width, now.height] : bounds(data(then), data(now), now.width);
  if (right <= left) return null;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [right - left, bottom - top];
  canvas.getContext("2d").drawImage(now, -left, -top);
  return { x: left, y: top, png: canvas.toDataURL("image/png").split(",")[1] };
};

const bounds = (one, other, width) => {
  let [left, top, right, bottom] = [width, Infinity, 0, 0];
  for (let at = 0; at < one.length; at += 4) {
    if (one[at] === other[at] && one[at + 1] === other[at + 1] && one[at + 2] === other[at + 2]) continue;
    const [x, y] = [(at / 4) % width, Math.floor(at / 4 / width)];
    [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x + 1), Math.max(bottom, y + 1)];
  }
  return [left, top, right, bottom];
};
