// Package sheet is the look of the pages that reports are written as: a style sheet, the
// parts that pages share, figures, and plots as SVG. A page is one file that loads
// nothing else, fits a telephone and paper, and has a light and a dark theme. The
// reports decide its content.
package sheet
