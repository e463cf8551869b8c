package report

import "strconv"

// Plural is a number of things in words: "1 machine", "2 machines".
func Plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
