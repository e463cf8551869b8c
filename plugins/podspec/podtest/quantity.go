package podtest

import "regexp"

var slow = regexp.MustCompile(`[eE]-[0-9]{4,}|[eE][+-]?[0-9]{10,}`)

// Slow reports whether a text has an exponent for which resource.ParseQuantity takes minutes: far below 0,
// also by an overflow of 32 bits. Decoding an object does not end then, before any code of ours sees it.
func Slow(text []byte) bool { return slow.Match(text) }
