// Colour scales that colour-blind people can read: one hue by lightness for magnitudes, blue to orange for signs.
// Each is piecewise linear in sRGB; the first stop of a magnitude is the surface of the theme.

const STOPS = {
  light: {
    magnitude: [[255, 255, 255], [198, 219, 239], [107, 154, 205], [13, 71, 140]],
    signed: [[166, 72, 12], [240, 170, 110], [255, 255, 255], [120, 165, 215], [13, 71, 140]],
  },
  dark: {
    magnitude: [[26, 31, 39], [35, 68, 112], [74, 134, 202], [200, 228, 255]],
    signed: [[255, 180, 110], [160, 90, 40], [26, 31, 39], [45, 95, 160], [150, 200, 255]],
  },
};

// Curves: blue, orange, green, purple, ochre, grey; each pair differs in lightness too, and each curve has a mark of its own.
const SERIES = {
  light: ["#1f5fae", "#b63c12", "#23854f", "#7a2da3", "#7d5a00", "#515a68"],
  dark: ["#7db4f5", "#ff9368", "#5cc98e", "#d3a0f2", "#e3bc55", "#a9b3c2"],
};
/** How many curves have colours of their own. */
export const SERIES_COUNT = SERIES.light.length;

/** @typedef {"light" | "dark"} Theme */

/** The colour of a curve, by its number from 0. @param {number} number @param {Theme} theme */
export const series = (number, theme) => SERIES[theme][number % SERIES_COUNT];

/** The colour of a share from 0 to 1, as [red, green, blue]. @param {number} share @param {Theme} theme @returns {number[]} */
export const magnitude = (share, theme) => between(STOPS[theme].magnitude, share);

/** The colour of a value from -1 (orange) through 0 (the surface) to 1 (blue). @param {number} value @param {Theme} theme */
export const signed = (value, theme) => between(STOPS[theme].signed, (value + 1) / 2);

/** @param {number[]} colour */
export const css = colour => `rgb(${colour.join(" ")})`;

/** The colour of text that can be read on a colour: black or white, as a softer one reaches no contrast of 4.5 on colours between. @param {number[]} colour */
export function inkOn(colour) {
  const [red, green, blue] = colour.map(each => (each <= 10 ? each / 3294 : ((each / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/** @param {number[][]} stops @param {number} share */
function between(stops, share) {
  const place = Math.min(Math.max(Number.isFinite(share) ? share : 0, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  return stops[below].map((each, index) => Math.round(each + (stops[below + 1][index] - each) * (place - below)));
}
