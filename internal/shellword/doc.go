// Package shellword writes words of commands that are printed to be typed, and text of strangers to a terminal.
package shellword
