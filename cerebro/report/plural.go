package report

import "strconv"

// Plural writes a number of things: "1 machine", "2 machines".
func Plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
