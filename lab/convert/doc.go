// Package convert turns public data sets of placement problems into traces,
// one format to a file.
//
// It reads what is given and invents nothing: amounts stay exact, and what a
// format lacks stays empty. It writes no files and downloads none.
package convert
