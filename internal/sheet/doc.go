// Package sheet describes reports, and writes a description as text, Markdown, JSON, or a page. A report has a verdict, facts,
// tables of typed columns, notes, charts and the data for programs; the packages that compare decide its content.
//
// A page is one file that loads nothing else, fits a telephone and paper, and has a light and a dark theme. Its charts are SVG
// that the page's style colours.
package sheet
